#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The Debian packages, as one who installs them sees them. They are built twice, in two places.
# long: because all is compiled three times
# later: because that takes minutes
# variants: plain, because it is what would be shipped
bats_require_minimum_version 1.5.0

top=$(cd "$BATS_TEST_DIRNAME/../../.." && pwd)

setup_file() {
        export missing='' work=''
        [ "$(id -u)" = 0 ] || { missing='a chroot needs root' && return 0; }
        for program in dpkg-buildpackage dh lintian; do
                command -v $program > /dev/null || { missing="no $program here: tools/deps package" && return 0; }
        done
        work=$(mktemp -d /tmp/sublet-packages-XXXXXX)
        "$top/tools/package" deb "$work/one" > /dev/null
}

# A skip in setup_file is a failure of bats 1.8.
setup() { [ -z "$missing" ] || skip "$missing"; }

teardown_file() {
        [ -n "${work:-}" ] || return 0
        umount -R -l "$work/root/proc" "$work/root/dev" 2> /dev/null || true
        findmnt -rn -o TARGET | grep -q "^$work/" && { echo "still mounted below $work"; return 1; }
        rm -rf --one-file-system "$work"
}

# in_root COMMAND...: in a Debian of its own
in_root() { DEBIAN_FRONTEND=noninteractive chroot "$work/root" "$@"; }

# What is there, but what apt and dpkg remember.
list_root() { (cd "$work/root" && find . -xdev \( -type f -o -type l \) ! -path './proc/*' ! -path './sys/*' ! -path './dev/*' | sort) |
        grep -vE '^\./(var/(lib/(dpkg|apt|systemd|ucf)|cache|log)|usr/share/(info|doc)/|etc/(ld\.so\.cache|group|gshadow|passwd|shadow|subuid|subgid)|tmp/)'; }

@test "five packages, and each file is in one of them" {
        for package in sublet sublet-router sublet-kubernetes sublet-sim libsublet; do
                compgen -G "$work/one/${package}_*.deb" > /dev/null || { echo "$package"; ls "$work/one"; return 1; }
        done
        for deb in "$work"/one/*.deb; do dpkg-deb -c "$deb" | awk '$1 !~ /^d/ { print $6 }'; done | sort > "$work/files"
        [ -z "$(grep -v '/usr/share/doc/' "$work/files" | uniq -d)" ]
        for file in ./usr/bin/sublet ./lib/systemd/system/sublet.service ./usr/lib/sysusers.d/sublet.conf ./usr/lib/sublet/libsublet.so \
                ./usr/lib/nginx/modules/ngx_http_sublet_module.so ./usr/lib/sublet/sim/libcuda.so.1 ./usr/lib/sublet/sim/nvidia-smi \
                ./usr/share/man/man1/sublet.1.gz ./usr/share/man/man5/sublet-route.yaml.5.gz ./usr/share/man/man7/sublet.7.gz \
                ./usr/share/man/man8/sublet-daemon.8.gz ./usr/share/bash-completion/completions/sublet \
                ./usr/share/zsh/vendor-completions/_sublet ./usr/share/fish/vendor_completions.d/sublet.fish; do
                grep -qxF "$file" "$work/files" || { echo "$file is in no package"; return 1; }
        done
}

@test "lintian has nothing to say" {
        run -0 lintian --allow-root --fail-on error,warning --tag-display-limit 0 "$work"/one/*.changes
        [ -z "$output" ] || { echo "$output"; return 1; }
}

@test "two builds in two places are the same bytes" {
        SUBLET_ELSEWHERE=1 TMPDIR=$work "$top/tools/package" deb "$work/two" > /dev/null
        for file in "$work"/one/*.deb "$work"/one/*.spdx.json; do
                cmp "$file" "$work/two/${file##*/}"
        done
}

@test "the tarball links nothing of the system but libc, and runs a tenant from wherever it is unpacked, for any user" {
        "$top/tools/package" tar "$work/tar" > /dev/null
        mkdir "$work/elsewhere"
        chmod 755 "$work" "$work/elsewhere"
        tar -C "$work/elsewhere" -xf "$work"/tar/sublet-*.tar.xz
        mv "$work"/elsewhere/sublet-* "$work/elsewhere/here"
        here=$work/elsewhere/here
        find "$here/bin" "$here/lib/sublet" -path '*/bundled' -prune -o -type f \( -path '*/bin/*' -o -name '*.so*' \) -print | while read -r file; do
                ! ldd "$file" 2> /dev/null | grep -vE "$here|linux-vdso|/ld-linux-|not a dynamic|statically|/lib(c|m|dl|pthread|rt)\.so" || { echo "$file"; exit 1; }
        done
        jq -e '[.packages[].name] | index("libseccomp2")' "$here/share/doc/sublet/sublet.spdx.json"
        # shellcheck disable=SC2016  # for the shell there
        run -0 setpriv --reuid 4001 --regid 4001 --clear-groups env -i HOME=/nonexistent PATH="$here/bin:/usr/bin:/bin" TMPDIR=/tmp \
                sublet sim --memory 16G -- sublet run --no-daemon -q --mem 2G -- nvidia-smi
        echo "$output"
        [[ $output == *"0MiB / 2048MiB"* ]]
        ls -l "$work"/tar
}

@test "the version of the packages is the program's" {
        version=$(sed -n "s/^ *version: '\(.*\)',/\1/p" "$top/meson.build")
        [ "$(dpkg-deb -f "$work"/one/sublet_*.deb Version)" = "$version" ]
        [ "$(dpkg-parsechangelog -l "$top/debian/changelog" -S Version)" = "$version" ]
}

@test "the bill of materials names what is linked, with versions" {
        jq -e '.spdxVersion == "SPDX-2.3" and ([.packages[].name] | index("libseccomp2") and index("libsqlite3-0"))
               and all(.packages[]; .versionInfo != "") and ([.files[].fileName] | index("./usr/bin/sublet"))' "$work"/one/*.spdx.json
}

@test "on a new Debian, apt installs them and the tour's first steps run; purged, no file is left" {
        command -v mmdebstrap > /dev/null || skip 'no mmdebstrap here: tools/deps package'
        mmdebstrap --quiet --variant=apt --mode=root bookworm "$work/root" > "$work/said" 2>&1 || { cat "$work/said"; skip 'no Debian archive can be reached'; }
        mount --rbind --make-rslave /proc "$work/root/proc"
        mount --rbind --make-rslave /dev "$work/root/dev"
        # What they need stays, so that what is left over is theirs.
        cp "$work"/one/*.deb "$work/root/tmp/"
        in_root apt-get update -q > "$work/said" 2>&1 || { cat "$work/said"; return 1; }
        # shellcheck disable=SC2046  # a list of names
        in_root apt-get install -y -q --no-install-recommends $(dpkg-deb -f "$work"/one/sublet_*.deb Depends | sed 's/([^)]*)//g; s/|[^,]*//g; s/,/ /g') systemd adduser > "$work/said" 2>&1 || { cat "$work/said"; return 1; }
        list_root > "$work/before"
        in_root sh -c 'apt-get install -y -q --no-install-recommends /tmp/sublet_*.deb /tmp/libsublet_*.deb /tmp/sublet-sim_*.deb /tmp/sublet-kubernetes_*.deb' > "$work/said" 2>&1 ||
                { cat "$work/said"; return 1; }
        in_root getent group sublet
        in_root useradd -M guest
        run -0 in_root su guest -c 'sublet sim --memory 16G -- sublet run --no-daemon -q --mem 2G -- nvidia-smi'
        echo "$output"
        [[ $output == *"0MiB / 2048MiB"* ]]
        in_root mkdir -p /var/lib/sublet
        echo state > "$work/root/var/lib/sublet/sublet.db"
        in_root apt-get purge -y -q sublet-kubernetes sublet-sim libsublet sublet > "$work/said" 2>&1 || { cat "$work/said"; return 1; }
        in_root userdel guest
        list_root > "$work/after"
        diff "$work/before" "$work/after"
        [ ! -e "$work/root/var/lib/sublet" ]
        run ! in_root getent group sublet
}

@test "an upgrade stops the daemon's main process only: tenants go on" {
        dpkg-deb --fsys-tarfile "$work"/one/sublet_*.deb | tar -xO ./lib/systemd/system/sublet.service > "$work/unit"
        grep -qx 'KillMode=process' "$work/unit"
        grep -qx 'RuntimeDirectoryPreserve=yes' "$work/unit"
        dpkg-deb -I "$work"/one/sublet_*.deb postinst | grep -q 'restart'
}
