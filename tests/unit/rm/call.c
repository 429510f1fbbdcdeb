/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "rm/call.h"
#include "rm/numbers.h"
#include "rm/releases.h"

#include <stdlib.h>

/* As _IOC() of <linux/ioctl.h> puts a request together. */
static uint32_t request(uint32_t direction, uint32_t type, uint32_t nr, uint32_t size)
{
        return direction << 30 | size << 16 | type << 8 | nr;
}

static struct rm_layout layout(void)
{
        return layout_of(580, 159, 4);
}

static int request_find(const struct rm_layout *l, enum rm_node node, uint32_t req)
{
        enum rm_kind kind = RM_N_KINDS;
        uint32_t size = 0xffff;
        int r = rm_request_find(l, node, req, &kind, &size);

        if (r == RM_OK)
                assert_true(kind < RM_N_KINDS);
        else
                assert_true(kind == RM_N_KINDS && size == 0xffff); /* untouched */
        return r;
}

static enum rm_kind kind_of(const struct rm_layout *l, enum rm_node node, uint32_t req)
{
        enum rm_kind kind = RM_N_KINDS;
        uint32_t size;

        assert_int_equal(rm_request_find(l, node, req, &kind, &size), RM_OK);
        return kind;
}

/* A block in memory of exactly its size, so that a sanitizer sees a read beside it. */
static struct rm_call decode(const struct rm_layout *l, enum rm_kind kind, const void *block, size_t size)
{
        struct rm_call call;
        void *exact = malloc(size ? size : 1);

        assert_non_null(exact);
        memcpy(exact, block, size);
        assert_int_equal(rm_decode(l, kind, 0xc0ffee, exact, size, &call), RM_OK);
        free(exact);
        assert_int_equal(call.kind, kind);
        assert_int_equal(call.request, 0xc0ffee);
        assert_int_equal(call.block_size, size);
        return call;
}

/* Every 4 bytes of a block are their own number: word i holds 0x1000 + i. */
static const uint32_t *numbered(void)
{
        static uint32_t words[9264 / 4];

        for (uint32_t i = 0; i < 9264 / 4; i++)
                words[i] = 0x1000 + i;
        return words;
}

#define WORD(offset) (0x1000u + (offset) / 4u)
#define WORDS(offset) ((uint64_t)(WORD(offset) + 1) << 32 | WORD(offset))

/* Requests. */

static void everything_that_a_cuda_start_sends_is_found(void **state)
{
        static const uint32_t seen[] = { 0xc0384627, 0xc0104629, 0xc020462a, 0xc030462b, 0xc038464e,
                                         0xc028465e, 0xc90046c8, 0xc00446c9, 0xc01046ce, 0xc04846d2,
                                         0xc00846d6, 0xc23046d7, 0xc00846da };
        static const uint32_t uvm[] = { 0x17, 0x19, 0x1b, 0x1f, 0x21, 0x25, 0x27,       0x2b,      0x2d,
                                        0x2f, 0x41, 0x44, 0x48, 0x49, 0x4b, 0x30000001, 0x30000002 };
        struct rm_layout l = layout();

        (void)state;
        for (size_t i = 0; i < sizeof(seen) / sizeof(seen[0]); i++)
                assert_int_equal(request_find(&l, RM_NODE_CTL, seen[i]), RM_OK);
        for (size_t i = 0; i < sizeof(uvm) / sizeof(uvm[0]); i++)
                assert_int_equal(request_find(&l, RM_NODE_UVM, uvm[i]), RM_OK);
}

static void the_type_and_the_direction_of_a_request_do_not_count(void **state)
{
        struct rm_layout l = layout();

        (void)state;
        for (uint32_t type = 0; type < 256; type++) {
                for (uint32_t direction = 0; direction < 4; direction++) {
                        uint32_t req = request(direction, type, RM_NR_ALLOC, 48);

                        assert_int_equal(kind_of(&l, RM_NODE_CTL, req), RM_ALLOC);
                        assert_int_equal(kind_of(&l, RM_NODE_DEVICE, req), RM_ALLOC);
                }
        }
}

static void a_wrong_size_is_told_from_a_wrong_number(void **state)
{
        struct rm_layout l = layout();

        (void)state;
        assert_int_equal(request_find(&l, RM_NODE_CTL, request(3, 'F', RM_NR_ALLOC, 40)), RM_E_SIZE);
        assert_int_equal(request_find(&l, RM_NODE_CTL, request(3, 'F', RM_NR_ALLOC, 0)), RM_E_SIZE);
        assert_int_equal(request_find(&l, RM_NODE_CTL, request(3, 'F', RM_NR_ALLOC, 0x3fff)), RM_E_SIZE);
        assert_int_equal(request_find(&l, RM_NODE_CTL, request(3, 'F', 0x28, 20)), RM_E_NUMBER);
        assert_int_equal(request_find(&l, RM_NODE_CTL, request(3, 'F', 0x00, 0)), RM_E_NUMBER);
        assert_int_equal(request_find(&l, RM_NODE_CTL, request(3, 'F', 0xff, 48)), RM_E_NUMBER);
}

static void a_request_that_the_release_does_not_have_is_not_found(void **state)
{
        struct rm_layout old = layout_of(525, 147, 5), new = layout_of(595, 45, 4);

        (void)state;
        assert_int_equal(request_find(&old, RM_NODE_CTL, request(3, 'F', RM_NR_WAIT_OPEN, 8)), RM_E_NUMBER);
        assert_int_equal(request_find(&new, RM_NODE_CTL, request(3, 'F', RM_NR_WAIT_OPEN, 8)), RM_OK);
        assert_int_equal(request_find(&old, RM_NODE_UVM, UVM_MM_INITIALIZE), RM_E_NUMBER);
        assert_int_equal(request_find(&new, RM_NODE_UVM, UVM_MM_INITIALIZE), RM_OK);
        assert_int_equal(request_find(&old, RM_NODE_UVM, 54), RM_OK);
        assert_int_equal(request_find(&new, RM_NODE_UVM, 54), RM_E_NUMBER);
}

static void both_sizes_of_an_allocation_are_found_in_their_release(void **state)
{
        struct rm_layout old = layout_of(525, 147, 5), new = layout();

        (void)state;
        assert_int_equal(kind_of(&old, RM_NODE_CTL, request(3, 'F', RM_NR_ALLOC, 32)), RM_ALLOC_SHORT);
        assert_int_equal(kind_of(&new, RM_NODE_CTL, request(3, 'F', RM_NR_ALLOC, 32)), RM_ALLOC_SHORT);
        assert_int_equal(kind_of(&old, RM_NODE_CTL, request(3, 'F', RM_NR_ALLOC, 40)), RM_ALLOC);
        assert_int_equal(kind_of(&new, RM_NODE_CTL, request(3, 'F', RM_NR_ALLOC, 48)), RM_ALLOC);
        assert_int_equal(request_find(&old, RM_NODE_CTL, request(3, 'F', RM_NR_ALLOC, 48)), RM_E_SIZE);
}

static void a_device_list_is_a_multiple_of_72_bytes_for_at_most_32_devices(void **state)
{
        struct rm_layout l = layout();

        (void)state;
        for (uint32_t size = 0; size <= 0x3fff; size++) {
                bool fits = size > 0 && size % 72 == 0 && size / 72 <= 32;
                int r = request_find(&l, RM_NODE_CTL, request(3, 'F', RM_NR_CARD_INFO, size));

                assert_int_equal(r, fits ? RM_OK : RM_E_SIZE);
        }
}

static void a_uvm_number_is_all_32_bits_and_has_no_size(void **state)
{
        struct rm_layout l = layout();
        enum rm_kind kind;
        uint32_t size;

        (void)state;
        assert_int_equal(rm_request_find(&l, RM_NODE_UVM, UVM_MAP_EXTERNAL, &kind, &size), RM_OK);
        assert_int_equal(kind, RM_UVM_MAP_EXTERNAL);
        assert_int_equal(size, 9264);
        assert_int_equal(request_find(&l, RM_NODE_UVM, 0x100 | UVM_MAP_EXTERNAL), RM_E_NUMBER);
        assert_int_equal(request_find(&l, RM_NODE_UVM, 0x80000000 | UVM_MAP_EXTERNAL), RM_E_NUMBER);
        assert_int_equal(request_find(&l, RM_NODE_UVM, 9264u << 16 | UVM_MAP_EXTERNAL), RM_E_NUMBER);
        assert_int_equal(request_find(&l, RM_NODE_UVM, 62), RM_E_NUMBER); /* reads other processes' memory */
}

static void a_number_of_one_node_means_nothing_on_another(void **state)
{
        static const enum rm_node none[] = { RM_NODE_OTHER, RM_NODE_UVM_TOOLS, RM_NODE_FORBIDDEN };
        struct rm_layout l = layout();

        (void)state;
        assert_int_equal(request_find(&l, RM_NODE_CTL, UVM_MAP_EXTERNAL), RM_E_NUMBER);
        assert_int_equal(request_find(&l, RM_NODE_DEVICE, UVM_INITIALIZE), RM_E_NUMBER);
        assert_int_equal(request_find(&l, RM_NODE_UVM, 0xc030462b), RM_E_NUMBER);
        for (size_t i = 0; i < 3; i++) {
                assert_int_equal(request_find(&l, none[i], 0xc030462b), RM_E_NUMBER);
                assert_int_equal(request_find(&l, none[i], UVM_MAP_EXTERNAL), RM_E_NUMBER);
        }
}

/* How many requests of the control node a release has: a row has one size, CARD_INFO 32. */
static size_t n_requests(const struct rm_layout *layout)
{
        size_t n = 31;

#define REQUEST(kind, node, nr, size, status, fd, client, meaning)                                                     \
        n += RM_NODE_##node == RM_NODE_CTL && (size) != RM_ABSENT;
#include "rm/requests.def"
#undef REQUEST
        return n;
}

/* All 2^22 that the driver tells apart, on the oldest and the newest release; UVM sampled. */
static void what_is_found_has_the_size_that_was_asked_for(void **state)
{
        (void)state;
        for (size_t i = 0; i < N_RELEASES; i += N_RELEASES - 1) {
                struct rm_layout l = layout_of_release(i);
                size_t n_found = 0;

                for (uint32_t low = 0; low < 1u << 22; low++) {
                        uint32_t req = request(low & 3, 'F' ^ low % 251, low & 0xff, low >> 8);
                        enum rm_kind kind = RM_N_KINDS;
                        uint32_t size = 0;

                        if (rm_request_find(&l, RM_NODE_CTL, req, &kind, &size) != RM_OK)
                                continue;
                        assert_int_equal(size, low >> 8);
                        assert_true(kind < RM_UVM_INITIALIZE);
                        n_found++;
                }
                assert_int_equal(n_found, n_requests(&l));

                for (uint64_t req = 0; req < 1ull << 32; req += req < 4096 ? 1 : 65521) {
                        enum rm_kind kind;
                        uint32_t size;

                        if (rm_request_find(&l, RM_NODE_UVM, (uint32_t)req, &kind, &size) == RM_OK)
                                assert_true(kind >= RM_UVM_INITIALIZE && kind < RM_N_KINDS && size <= 9264);
                }
        }
}

/* Blocks: what stands where, by a block whose words are numbered. */

static void an_allocation_is_decoded_as_535_and_later_have_it(void **state)
{
        struct rm_layout l = layout();
        struct rm_call call = decode(&l, RM_ALLOC, numbered(), 48);

        (void)state;
        assert_int_equal(call.client, WORD(0));
        assert_int_equal(call.parent, WORD(4));
        assert_int_equal(call.object, WORD(8));
        assert_int_equal(call.object_at, 8);
        assert_int_equal(call.class_or_cmd, WORD(12));
        assert_true(call.params == WORDS(16));
        assert_int_equal(call.params_at, 16);
        assert_int_equal(call.rights_at, 24);
        assert_int_equal(call.params_size, WORD(32));
        assert_int_equal(call.params_size_at, 32);
        assert_int_equal(call.flags, WORD(36));
        assert_int_equal(call.status_at, 40);
        assert_int_equal(call.fd_at, UINT32_MAX);
}

static void an_allocation_is_decoded_as_525_has_it(void **state)
{
        struct rm_layout l = layout_of(525, 147, 5);
        struct rm_call call = decode(&l, RM_ALLOC, numbered(), 40);

        (void)state;
        assert_int_equal(call.object, WORD(8));
        assert_true(call.params == WORDS(16));
        assert_int_equal(call.rights_at, 24);
        assert_int_equal(call.params_size, 0);
        assert_int_equal(call.params_size_at, UINT32_MAX);
        assert_int_equal(call.flags, WORD(32));
        assert_int_equal(call.status_at, 36);
}

static void a_short_allocation_has_no_rights(void **state)
{
        struct rm_layout old = layout_of(525, 147, 5), new = layout();
        struct rm_call call = decode(&old, RM_ALLOC_SHORT, numbered(), 32);

        (void)state;
        assert_int_equal(call.class_or_cmd, WORD(12));
        assert_true(call.params == WORDS(16));
        assert_int_equal(call.status_at, 24);
        assert_int_equal(call.params_size_at, UINT32_MAX);
        assert_int_equal(call.rights_at, UINT32_MAX);

        call = decode(&new, RM_ALLOC_SHORT, numbered(), 32);
        assert_int_equal(call.status_at, 28);
        assert_int_equal(call.params_size_at, 24);
        assert_int_equal(call.params_size, WORD(24));
}

static void a_control_is_decoded(void **state)
{
        struct rm_layout l = layout();
        struct rm_call call = decode(&l, RM_CONTROL, numbered(), 32);

        (void)state;
        assert_int_equal(call.client, WORD(0));
        assert_int_equal(call.object, WORD(4));
        assert_int_equal(call.object_at, UINT32_MAX);
        assert_int_equal(call.class_or_cmd, WORD(8));
        assert_int_equal(call.flags, WORD(12));
        assert_true(call.params == WORDS(16));
        assert_int_equal(call.params_size, WORD(24));
        assert_int_equal(call.status_at, 28);
}

static void a_free_a_dup_and_a_share_are_decoded(void **state)
{
        struct rm_layout l = layout();
        struct rm_call call = decode(&l, RM_FREE, numbered(), 16);

        (void)state;
        assert_int_equal(call.client, WORD(0));
        assert_int_equal(call.object, WORD(8));
        assert_int_equal(call.object_at, UINT32_MAX);
        assert_int_equal(call.status_at, 12);

        call = decode(&l, RM_DUP, numbered(), 28);
        assert_int_equal(call.client, WORD(0));
        assert_int_equal(call.parent, WORD(4));
        assert_int_equal(call.object, WORD(8));
        assert_int_equal(call.object_at, 8);
        assert_int_equal(call.source_client, WORD(12));
        assert_int_equal(call.source_object, WORD(16));
        assert_int_equal(call.flags, WORD(20));
        assert_int_equal(call.status_at, 24);

        call = decode(&l, RM_SHARE, numbered(), 24);
        assert_int_equal(call.object, WORD(4));
        assert_int_equal(call.class_or_cmd, WORD(16));
        assert_int_equal(call.status_at, 20);
}

static void mappings_name_their_descriptor_and_range(void **state)
{
        struct rm_layout l = layout();
        struct rm_call call = decode(&l, RM_MAP_MEMORY, numbered(), 56);

        (void)state;
        assert_int_equal(call.object, WORD(8));
        assert_true(call.base == WORDS(16) && call.length == WORDS(24));
        assert_int_equal(call.status_at, 40);
        assert_int_equal(call.flags, WORD(44));
        assert_int_equal(call.fd_at, 48);

        call = decode(&l, RM_ALLOC_MEMORY, numbered(), 56);
        assert_int_equal(call.class_or_cmd, WORD(12));
        assert_int_equal(call.object_at, 8);
        assert_true(call.base == WORDS(24) && call.length == WORDS(32) + 1);
        assert_true(call.params == 0);
        assert_int_equal(call.fd_at, 48);

        call = decode(&l, RM_MAP_DMA, numbered(), 64);
        assert_int_equal(call.source_object, WORD(12));
        assert_int_equal(call.status_at, 56);
        call = decode(&l, RM_UNMAP_DMA, numbered(), 48);
        assert_int_equal(call.status_at, 40);

        call = decode(&l, RM_REGISTER_FD, numbered(), 4);
        assert_int_equal(call.fd_at, 0);
        assert_int_equal(call.status_at, UINT32_MAX);
}

static void the_heap_names_an_object_by_function(void **state)
{
        static const struct {
                uint32_t function, object_at, object;
        } rows[] = {
                { 1, 44, WORD(44) },  { 2, 44, WORD(44) },           { 3, UINT32_MAX, WORD(44) }, { 5, UINT32_MAX, 0 },
                { 6, 44, WORD(44) },  { 14, 44, WORD(44) },          { 19, UINT32_MAX, 0 },       { 27, 40, WORD(40) },
                { 0, UINT32_MAX, 0 }, { 0xffffffff, UINT32_MAX, 0 },
        };
        struct rm_layout l = layout();

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                uint32_t block[184 / 4];
                struct rm_call call;

                memcpy(block, numbered(), sizeof(block));
                block[2] = rows[i].function;
                call = decode(&l, RM_VID_HEAP, block, sizeof(block));
                assert_int_equal(call.class_or_cmd, rows[i].function);
                assert_int_equal(call.object_at, rows[i].object_at);
                assert_int_equal(call.object, rows[i].object);
                assert_int_equal(call.status_at, 20);
        }
}

static void an_external_mapping_names_whose_memory_it_holds(void **state)
{
        struct rm_layout old = layout_of(535, 288, 1), new = layout();
        struct rm_call call = decode(&old, RM_UVM_MAP_EXTERNAL, numbered(), 1200);

        (void)state;
        assert_true(call.base == WORDS(0) && call.length == WORDS(8));
        assert_int_equal(call.fd_at, 1184);
        assert_int_equal(call.client, WORD(1188));
        assert_int_equal(call.source_client, WORD(1188));
        assert_int_equal(call.source_object, WORD(1192));
        assert_int_equal(call.status_at, 1196);

        call = decode(&new, RM_UVM_MAP_EXTERNAL, numbered(), 9264);
        assert_int_equal(call.fd_at, 9248);
        assert_int_equal(call.source_client, WORD(9252));
        assert_int_equal(call.source_object, WORD(9256));
        assert_int_equal(call.status_at, 9260);
}

static void uvm_blocks_that_changed_are_decoded_on_either_side(void **state)
{
        struct rm_layout old = layout(), new = layout_of(590, 48, 1);
        struct rm_call call = decode(&old, RM_UVM_FREE, numbered(), 24);

        (void)state;
        assert_true(call.base == WORDS(0) && call.length == WORDS(8));
        assert_int_equal(call.status_at, 16);
        call = decode(&new, RM_UVM_FREE, numbered(), 16);
        assert_true(call.base == WORDS(0) && call.length == 0);
        assert_int_equal(call.status_at, 8);

        call = decode(&old, RM_UVM_UNREGISTER_CHANNEL, numbered(), 28);
        assert_int_equal(call.client, WORD(16));
        assert_int_equal(call.object, WORD(20));
        assert_int_equal(call.status_at, 24);
        call = decode(&new, RM_UVM_UNREGISTER_CHANNEL, numbered(), 12);
        assert_int_equal(call.client, WORD(0));
        assert_int_equal(call.object, WORD(4));
        assert_int_equal(call.status_at, 8);

        call = decode(&old, RM_UVM_REGISTER_CHANNEL, numbered(), 56);
        assert_int_equal(call.client, WORD(20));
        assert_int_equal(call.object, WORD(24));
        assert_int_equal(call.fd_at, 16);
        assert_true(call.base == WORDS(32) && call.length == WORDS(40));
}

static void an_indirect_request_says_what_is_inside(void **state)
{
        uint32_t block[4] = { RM_NR_ALLOC, 48, 0xdeadbeef, 0x7fff };
        struct rm_layout l = layout();
        struct rm_call call = decode(&l, RM_XFER, block, sizeof(block));

        (void)state;
        assert_true(call.params == 0x7fffdeadbeef);
        assert_int_equal(rm_params_size(&l, &call), 48);
        assert_int_equal(kind_of(&l, RM_NODE_CTL, RM_REQUEST(call.class_or_cmd, call.params_size)), RM_ALLOC);
}

static void an_indirect_request_is_unwrapped_once_and_not_truncated(void **state)
{
        static const struct {
                uint32_t nr, size;
                int r;
        } rows[] = {
                { RM_NR_XFER, 16, RM_E_NUMBER },
                { 0x100 | RM_NR_ALLOC, 48, RM_E_NUMBER }, /* would be 0x2b in 8 bits */
                { 0xc030462b, 48, RM_E_NUMBER },
                { RM_NR_ALLOC, 0x4000, RM_E_SIZE },      /* the driver's maximum; no block has it */
                { RM_NR_ALLOC, 0x4000 | 48, RM_E_SIZE }, /* would be 48 in 14 bits */
                { RM_NR_ALLOC, 0xffffffff, RM_E_SIZE },
        };
        struct rm_layout l = layout();

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                uint32_t block[4] = { rows[i].nr, rows[i].size, 0x1000, 0 };
                struct rm_call call = { .object = 7 };

                assert_int_equal(rm_decode(&l, RM_XFER, 0, block, sizeof(block), &call), rows[i].r);
                assert_int_equal(call.object, 7); /* untouched */
        }
}

/* For every kind in every branch: only its own size decodes, and every offset lies inside. */
static void a_block_of_another_size_is_refused(void **state)
{
        (void)state;
        for (size_t i = 0; i < N_RELEASES; i += 3) {
                struct rm_layout l = layout_of_release(i);

                for (int kind = 0; kind < RM_N_KINDS; kind++) {
                        size_t n_sizes = 0;

                        for (size_t size = 0; size <= 9264; size++) {
                                struct rm_call call = { .object = 7 };
                                int r = rm_decode(&l, (enum rm_kind)kind, 0, numbered(), size, &call);

                                assert_true(r == RM_OK || r == RM_E_SIZE || kind == RM_XFER);
                                if (r == RM_OK || r == RM_E_NUMBER)
                                        n_sizes++;
                                else
                                        assert_int_equal(call.object, 7);
                        }
                        assert_in_range(n_sizes, 0, kind == RM_CARD_INFO ? 32 : 1);
                }
                assert_int_equal(rm_decode(&l, RM_N_KINDS, 0, numbered(), 16, &(struct rm_call){ 0 }), RM_E_SIZE);
                assert_int_equal(rm_decode(&l, RM_FREE, 0, numbered(), (1ull << 32) + 16, &(struct rm_call){ 0 }),
                                 RM_E_SIZE);
        }
}

static void inside(uint32_t at, uint32_t width, uint32_t size)
{
        if (at != UINT32_MAX)
                assert_in_range(at + width, width, size);
}

static void every_offset_lies_inside_its_block(void **state)
{
        size_t n = 0;

        (void)state;
        for (size_t i = 0; i < N_RELEASES; i++) {
                struct rm_layout l = layout_of_release(i);

                for (int kind = 0; kind < RM_N_KINDS; kind++) {
                        for (uint32_t size = 0; size <= 9264; size += 2) {
                                struct rm_call call;

                                if (rm_decode(&l, (enum rm_kind)kind, 0, numbered(), size, &call))
                                        continue;
                                inside(call.status_at, 4, size);
                                inside(call.object_at, 4, size);
                                inside(call.params_at, 8, size);
                                inside(call.params_size_at, 4, size);
                                inside(call.rights_at, 8, size);
                                inside(call.fd_at, 4, size);
                                n++;
                        }
                }
        }
        assert_true(n > N_RELEASES * (RM_N_KINDS - 8));
}

/* Parameters. */

static void the_class_and_not_the_tenant_says_how_large_parameters_are(void **state)
{
        static const struct {
                uint32_t class_number, size;
        } rows[] = {
                { RM_CLASS_VIDEO_MEMORY, 128 },
                { RM_CLASS_GROUP, 20 },
                { RM_CLASS_DEVICE, 56 },
                { RM_CLASS_SUBDEVICE, 4 },
                { 0xc86f, 368 },
                { 0xcbc0, 16 },
                { 0xc8b5, 8 },
                { RM_CLASS_CONTEXT_SHARE, 12 },
                { 0x90e6, 0 },
                { 0xabcd, 0 },
                { 0xffffffff, 0 },
        };
        struct rm_layout l = layout();

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct rm_call call = { .kind = RM_ALLOC,
                                        .class_or_cmd = rows[i].class_number,
                                        .params = 0x1000,
                                        .params_size = 0xffffffff };

                assert_int_equal(rm_params_size(&l, &call), rows[i].size);
                call.kind = RM_ALLOC_SHORT;
                assert_int_equal(rm_params_size(&l, &call), rows[i].size);
                call.params = 0;
                assert_int_equal(rm_params_size(&l, &call), 0);
        }
}

static void every_channel_class_has_a_channels_parameters(void **state)
{
        struct rm_layout l = layout_of(535, 54, 3);

        (void)state;
        for (uint32_t c = 0x106f; c <= 0xff6f; c += 0x100) {
                struct rm_call call = { .kind = RM_ALLOC, .class_or_cmd = c, .params = 0x1000 };

                assert_int_equal(rm_params_size(&l, &call), 304);
        }
}

static void of_a_control_the_claim_counts(void **state)
{
        struct rm_layout l = layout();
        struct rm_call call = {
                .kind = RM_CONTROL, .class_or_cmd = RM_FB_GET_INFO_V2, .params = 0x1000, .params_size = 1028
        };

        (void)state;
        assert_int_equal(rm_params_size(&l, &call), 1028);
        call.params_size = 7;
        assert_int_equal(rm_params_size(&l, &call), 7);
        call.params = 0;
        assert_int_equal(rm_params_size(&l, &call), 0);
}

static void other_calls_have_no_parameters_but_a_pending_event(void **state)
{
        struct rm_layout l = layout();

        (void)state;
        for (int kind = 0; kind < RM_N_KINDS; kind++) {
                struct rm_call call = { .kind = (enum rm_kind)kind, .params = 0x1000, .params_size = 99 };

                switch (kind) {
                case RM_ALLOC:
                case RM_ALLOC_SHORT: /* of class 0, a client */
                        assert_int_equal(rm_params_size(&l, &call), 4);
                        break;
                case RM_CONTROL:
                case RM_XFER:
                        assert_int_equal(rm_params_size(&l, &call), 99);
                        break;
                case RM_EVENT_DATA:
                        assert_int_equal(rm_params_size(&l, &call), 16);
                        break;
                default:
                        assert_int_equal(rm_params_size(&l, &call), 0);
                        break;
                }
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(everything_that_a_cuda_start_sends_is_found),
                cmocka_unit_test(the_type_and_the_direction_of_a_request_do_not_count),
                cmocka_unit_test(a_wrong_size_is_told_from_a_wrong_number),
                cmocka_unit_test(a_request_that_the_release_does_not_have_is_not_found),
                cmocka_unit_test(both_sizes_of_an_allocation_are_found_in_their_release),
                cmocka_unit_test(a_device_list_is_a_multiple_of_72_bytes_for_at_most_32_devices),
                cmocka_unit_test(a_uvm_number_is_all_32_bits_and_has_no_size),
                cmocka_unit_test(a_number_of_one_node_means_nothing_on_another),
                cmocka_unit_test(what_is_found_has_the_size_that_was_asked_for),
                cmocka_unit_test(an_allocation_is_decoded_as_535_and_later_have_it),
                cmocka_unit_test(an_allocation_is_decoded_as_525_has_it),
                cmocka_unit_test(a_short_allocation_has_no_rights),
                cmocka_unit_test(a_control_is_decoded),
                cmocka_unit_test(a_free_a_dup_and_a_share_are_decoded),
                cmocka_unit_test(mappings_name_their_descriptor_and_range),
                cmocka_unit_test(the_heap_names_an_object_by_function),
                cmocka_unit_test(an_external_mapping_names_whose_memory_it_holds),
                cmocka_unit_test(uvm_blocks_that_changed_are_decoded_on_either_side),
                cmocka_unit_test(an_indirect_request_says_what_is_inside),
                cmocka_unit_test(an_indirect_request_is_unwrapped_once_and_not_truncated),
                cmocka_unit_test(a_block_of_another_size_is_refused),
                cmocka_unit_test(every_offset_lies_inside_its_block),
                cmocka_unit_test(the_class_and_not_the_tenant_says_how_large_parameters_are),
                cmocka_unit_test(every_channel_class_has_a_channels_parameters),
                cmocka_unit_test(of_a_control_the_claim_counts),
                cmocka_unit_test(other_calls_have_no_parameters_but_a_pending_event),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
