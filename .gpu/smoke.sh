cd "$(dirname "$0")/.."; W=/tmp/w; mkdir -p $W; I=/usr/local/cuda/include; L="-L/usr/local/cuda/lib64/stubs -L/usr/local/cuda/targets/x86_64-linux/lib/stubs -lcuda"
S=$PWD/.gpu/sublet
for p in families memb race raw; do gcc -O2 -w -I$I tests/gpu/$p.c -o $W/$p $L -lpthread || gcc -O2 -w tests/gpu/$p.c -o $W/$p; done; gcc -O2 -w -static tests/gpu/raw.c -o $W/raw-static
T="timeout -s KILL"
echo "== start"; $T 20 $S run -v --mem 8G -- $W/families start; echo rc=$?
echo "== meminfo"; $T 20 $S run --mem 8G -- $W/families meminfo; echo rc=$?
echo "== smi"; $T 20 $S run -v --mem 8G -- nvidia-smi; echo rc=$?
for f in alloc pitch managed async vmm array array3d mipmap graph host register ipc mempool-export; do echo "== $f"; $T 40 $S run --mem 8G -- $W/families $f 64; echo rc=$?; done
echo "== memb native"; $T 60 $W/memb native; echo "== memb gate";  $T 60 $S run --json --mem 16G -- $W/memb gate; echo "== memb native"; $T 60 $W/memb native
for m in --plain --legacy --xfer --type --i386 --x32; do echo "== raw $m"; $T 20 $S run -v --mem 1G -- $W/raw-static $m --steps 64 2>&1 | tail -5; done
echo "== torch"; $T 120 $S run -v --mem 8G -- python3 tests/gpu/torch_oom.py; echo rc=$?
echo "== managed deny"; $T 40 $S run --managed=deny --mem 8G -- $W/families managed 64 256
nvidia-smi --query-gpu=memory.used --format=csv
