#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# tools/abi reads a tree of the driver's source. The tree here is made up: as little of one as the tool needs, with the
# names that it asks for, so that what is said about it is known.
# variants: plain, because no code of ours runs but a table
bats_require_minimum_version 1.5.0

abi=$BATS_TEST_DIRNAME/../../../tools/abi

setup() {
        tree=$BATS_TEST_TMPDIR/tree
        mkdir -p "$tree"/{src/common/sdk/nvidia/inc/{ctrl,class},kernel-open/nvidia-uvm,src/nvidia/src/kernel/rmapi}
        sdk=$tree/src/common/sdk/nvidia/inc
        resources=$tree/src/nvidia/src/kernel/rmapi/resource_list.h
        echo 'NVIDIA_VERSION = 580.65.06' > "$tree/version.mk"
        {
                echo 'typedef unsigned int NvU32, NvHandle; typedef unsigned long long NvP64, NvU64;'
                echo 'typedef struct { NvHandle hRoot, hObjectParent, hObjectOld; NvU32 status; } NVOS00_PARAMETERS;'
                echo '#define NV_ESC_RM_FREE 0x29'
        } > "$sdk/nvos.h"
        {
                echo '#define NV01_ROOT_CLIENT (0x41)'
                echo '#define NV01_EVENT (0x5)'
                echo 'typedef struct { NvHandle a, b; NvU32 c, d; NvP64 e; } NV0005_ALLOC_PARAMETERS;'
                echo '#define MADE_UP_CLASS (0x9999)'
        } > "$sdk/class/made_up.h"
        {
                echo '#define NV2080_CTRL_CMD_GPU_GET_ENGINES (0x20800123) /* finn: Evaluated from "(1 << 8) | NV2080_CTRL_GPU_GET_ENGINES_PARAMS_MESSAGE_ID" */'
                printf 'typedef struct NV2080_CTRL_GPU_GET_ENGINES_PARAMS {\n NvU32 engineCount;\n NvP64 engineList;\n} NV2080_CTRL_GPU_GET_ENGINES_PARAMS;\n'
                echo '#define NV2080_CTRL_CMD_GPU_GET_INFO_V2 (0x20800102) /* finn: Evaluated from "(1 << 8) | NV2080_CTRL_GPU_GET_INFO_V2_PARAMS_MESSAGE_ID" */'
                printf 'typedef struct NV2080_CTRL_GPU_GET_INFO_V2_PARAMS {\n NvU32 n;\n} NV2080_CTRL_GPU_GET_INFO_V2_PARAMS;\n'
        } > "$sdk/ctrl/ctrl2080.h"
        resource NV01_ROOT_CLIENT 'RS_OPTIONAL(NvHandle)'
        resource NV01_EVENT 'RS_REQUIRED(NV0005_ALLOC_PARAMETERS)'
        {
                echo '#define UVM_IOCTL_BASE(i) i'
                echo '#define UVM_VALIDATE_VA_RANGE UVM_IOCTL_BASE(72)'
                echo 'typedef struct { NvU64 base, length; NvU32 rmStatus; } UVM_VALIDATE_VA_RANGE_PARAMS;'
        } > "$tree/kernel-open/nvidia-uvm/uvm_ioctl.h"
        echo '#include "uvm_ioctl.h"' > "$tree/kernel-open/nvidia-uvm/uvm_linux_ioctl.h"
}

# resource CLASS PARAMETERS
resource() {
        printf 'RS_ENTRY(\n    /* External Class */ %s,\n    /* Alloc Param Info */ %s,\n    /* Flags */ 0,\n)\n' "$1" "$2" >> "$resources"
}

# differing PATTERN: what is said of those rows
differing() {
        run "$abi" "$tree"
        [ "$status" -eq 1 ]
        grep -E "$1" <<< "$output" || true
}

@test "a tree that has what the rows say differs only in what it lacks" {
        run differing ' (FREE|UVM_VALIDATE_RANGE):|classes|controls|pointers'
        [ -z "$output" ]
        run differing 'requests.def: CONTROL:'
        [[ $output == *'requests.def: CONTROL: size is 32, there not there (NVOS54_PARAMETERS)'* ]]
        run "$abi" "$tree"
        [[ $output == *'580.65.06: '*' rows differ; it is known' ]]
}

@test "a size, an offset, a number, a meaning and a pointer that differ are named" {
        sed -i 's/NvHandle hRoot, hObjectParent/NvHandle hRoot, more, hObjectParent/; s/0x29/0x2f/' "$sdk/nvos.h"
        sed -i 's/NvHandle a, b;/NvHandle a, b, x, y;/' "$sdk/class/made_up.h"
        sed -i 's/GPU_GET_INFO_V2 (/GPU_MADE_UP (/; s/ NvU32 n;/ NvP64 list;/; s/ NvU32 engineCount;/ NvU64 a, b;/' "$sdk/ctrl/ctrl2080.h"
        sed -i 's/BASE(72)/BASE(99)/; s/base, length;/length, base;/' "$tree/kernel-open/nvidia-uvm/uvm_ioctl.h"
        run differing ' FREE:|UVM_VALIDATE|classes|controls|pointers'
        echo "$output"
        cat > "$BATS_TEST_TMPDIR/wanted" << 'END'
requests.def: FREE: number is 41, there 47 (NVOS00_PARAMETERS)
requests.def: FREE: size is 16, there 20 (NVOS00_PARAMETERS)
requests.def: FREE: status is 12, there 16 (NVOS00_PARAMETERS)
requests.def: UVM_VALIDATE_RANGE: number is 72, there 99 (UVM_VALIDATE_VA_RANGE_PARAMS)
blocks.def: FREE: parent is 4, there 8 (NVOS00_PARAMETERS)
blocks.def: FREE: object is 8, there 12 (NVOS00_PARAMETERS)
blocks.def: UVM_VALIDATE_RANGE: base is 0, there 8 (UVM_VALIDATE_VA_RANGE_PARAMS)
blocks.def: UVM_VALIDATE_RANGE: length is 8, there 0 (UVM_VALIDATE_VA_RANGE_PARAMS)
classes.def: 0x0005 EVENT: 24 bytes, there 32 (NV01_EVENT)
controls.def: 0x20800102 GPU_GET_INFO_V2: there it is NV2080_CTRL_CMD_GPU_MADE_UP
pointers.def: 0x20800102: no row for NV2080_CTRL_GPU_GET_INFO_V2_PARAMS.list, at 0
pointers.def: 0x20800123: no row for NV2080_CTRL_GPU_GET_ENGINES_PARAMS.engineList, at 16
pointers.def: 0x20800123: a row for 8, where no pointer is
END
        diff <(echo "$output") "$BATS_TEST_TMPDIR/wanted"
}

@test "with an older tree, what is new in this one is listed" {
        cp -r "$tree" "$BATS_TEST_TMPDIR/older"
        resource MADE_UP_CLASS RS_NONE
        echo '#define NV2080_CTRL_CMD_GPU_MADE_UP (0x20800fff) /* finn: Evaluated from "" */' >> "$sdk/ctrl/ctrl2080.h"
        echo '#define UVM_MADE_UP UVM_IOCTL_BASE(100)' >> "$tree/kernel-open/nvidia-uvm/uvm_ioctl.h"
        run "$abi" "$tree" "$BATS_TEST_TMPDIR/older"
        [[ $output == *"class 0x9999: new -> ('MADE_UP_CLASS', 0)"* ]]
        [[ $output == *"control 0x20800fff: new -> "*NV2080_CTRL_CMD_GPU_MADE_UP* ]]
        [[ $output == *'UVM 0x64: new -> UVM_MADE_UP'* ]]
}

@test "an unknown release is compared with the newest rows, and bad use is one line and 2" {
        run "$abi" --release 999.1 "$tree"
        [ "$status" -eq 1 ]
        [[ $output == *'999.1: '*'it is not known (releases.def)' ]]
        run "$abi" "$BATS_TEST_TMPDIR/nothing"
        [ "$status" -eq 2 ]
        [[ $output == "tools/abi: '$BATS_TEST_TMPDIR/nothing' is no tree of NVIDIA's open kernel modules"* ]]
        run "$abi" --release today "$tree"
        [ "$status" -eq 2 ]
        [ "${#lines[@]}" -eq 1 ]
        run "$abi"
        [ "$status" -eq 2 ]
        [ "${#lines[@]}" -eq 1 ]
}

@test "each tag of a repository is checked: a known release must not differ, and what is not known is said" {
        cd "$tree"
        git init -q .
        for release in 999.01 580.65.06; do
                echo "NVIDIA_VERSION = $release" > version.mk
                git add -A
                git -c user.name=t -c user.email=t@localhost commit -qm "$release"
                git tag "$release"
        done
        run "$abi" --tags "$tree"
        echo "$output"
        [ "$status" -eq 1 ] # this tree lacks most of what the rows of 580 want
        grep -q '^580.65.06: requests.def: CONTROL: size is 32, there not there' <<< "$output"
        [[ $output != *$'\n'999.01* ]]
        [ "${lines[-1]}" = '2 releases: 1 known, of which 1 differ; not known: 999.01' ]
        run "$abi" --tags "$tree" 999.01
        [ "$status" -eq 0 ]
        [ "$output" = '1 releases: 0 known, of which 0 differ; not known: 999.01' ]
        for bad in "$tree 1.2" "$BATS_TEST_TMPDIR"; do
                # shellcheck disable=SC2086  # words
                run "$abi" --tags $bad
                [ "$status" -eq 2 ]
                [ "${#lines[@]}" -eq 1 ]
        done
}
