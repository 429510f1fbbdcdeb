# SPDX-License-Identifier: Apache-2.0
# The images that the pods are made of, without a registry: /pause, busybox with the test programs, and Sublet's own.
# shellcheck shell=bash
#
# An image is an archive as `docker save` writes it: a layer, its configuration, and a manifest that names both.

# image_pack FOLDER NAME PROGRAM [OTHER VARIABLE]: FOLDER's content to FOLDER.tar; PROGRAM is what it starts unless told
# otherwise. OTHER is the same image under that name, which sets VARIABLE (NAME=VALUE) too.
image_pack() {
        local folder=$1 work=$1.image layer
        mkdir -p "$work"
        tar -C "$folder" --sort=name --owner=0 --group=0 -cf "$work/layer.tar" .
        layer=$(sha256sum "$work/layer.tar" | cut -d' ' -f1)
        image_configuration "$3" "$layer" > "$work/config.json"
        image_configuration "$3" "$layer" "${5:-}" > "$work/other.json"
        jq -cn --arg name "$2" --arg other "${4:-}" '[{Config: "config.json", RepoTags: [$name], Layers: ["layer.tar"]},
                {Config: "other.json", RepoTags: [$other], Layers: ["layer.tar"]}] | map(select(.RepoTags != [""]))' > "$work/manifest.json"
        tar -C "$work" -cf "$folder.tar" manifest.json config.json other.json layer.tar
        rm -rf "$work"
}

image_configuration() { # PROGRAM LAYER [VARIABLE]
        jq -cn --arg program "$1" --arg layer "sha256:$2" --arg variable "${3:-}" '{architecture: "amd64", os: "linux",
                config: {Entrypoint: [$program], Env: (["PATH=/usr/local/bin:/bin"] + [$variable | select(. != "")])},
                rootfs: {type: "layers", diff_ids: [$layer]}}'
}

# Does nothing until it is told to end: the process that holds a pod's namespaces.
image_pause() {
        mkdir -p "$1"
        cc -static -O2 -o "$1/pause" -x c - <<'X'
#include <signal.h>
#include <unistd.h>

static void end(int number)
{
        (void)number;
        _exit(0);
}

int main(void)
{
        signal(SIGTERM, end);
        signal(SIGINT, end);
        for (;;)
                pause();
}
X
        image_pack "$1" localhost/pause:1 /pause
}

# image_programs FOLDER PROGRAM...: busybox, the programs and their libraries by ldd, except the driver's
image_programs() {
        local folder=$1 name library
        shift
        mkdir -p "$folder"/{bin,lib,lib64,tmp,etc}
        cp /bin/busybox "$folder/bin/"
        for name in sh env sleep ls cat grep id kill ps mkdir touch test tr true; do
                ln -s busybox "$folder/bin/$name"
        done
        cp "$@" "$folder/bin/"
        for library in $(ldd "$@" | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p' | sort -u); do
                case $library in
                */libcuda.so* | */libnvidia-ml.so*) continue ;;
                esac
                cp "$library" "$folder/lib/"
        done
        cp -L /lib64/ld-linux-x86-64.so.2 "$folder/lib64/"
        cp -L /lib/x86_64-linux-gnu/lib{dl,pthread,m,c}.so.* "$folder/lib/" 2> /dev/null || true
        image_pack "$folder" localhost/gpu:1 /bin/sh localhost/cuda:1 NVIDIA_VISIBLE_DEVICES=all # as NVIDIA's images
}
