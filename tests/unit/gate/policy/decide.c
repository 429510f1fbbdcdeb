/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/policy/call.h"

#include "base/cleanup.h"
#include "lease/capabilities.h"
#include "lease/lease.h"
#include "lease/ledger.h"

#include <errno.h>

enum {
        HUGE_PAGES = 3u << 23,
        BIG_PAGES = 2u << 23,
        SMALL_PAGES = 1u << 23,
        IN_HOST_MEMORY = 1u << 25,
        ANYWHERE = 3u << 25,
        FIXED = 0x10,
};

static struct rm_layout h200(void)
{
        return layout_of(580, 159, 4);
}

static struct gate_verdict memory(const struct rm_layout *l, uint32_t class_number, struct memory what)
{
        struct sent alloc = alloc_of(l, class_number);
        uint8_t params[128];

        memory_write(&what, params);
        return decided(l, &alloc, params, l->memory_params_size);
}

static struct gate_verdict class_verdict(const struct rm_layout *l, uint32_t class_number)
{
        struct sent alloc = alloc_of(l, class_number);
        uint8_t params[512] = { 0 };

        return decided(l, &alloc, params, sizeof(params));
}

static struct gate_verdict control(const struct rm_layout *l, uint32_t cmd)
{
        struct sent sent = control_of(l, cmd);
        uint8_t params[4] = { 0 };

        return decided(l, &sent, params, sizeof(params));
}

static struct gate_verdict plain(const struct rm_layout *l, enum rm_node node, uint32_t request)
{
        struct sent empty = sent(l, node, request);

        return decided(l, &empty, NULL, 0);
}

/* The table. */

struct row {
        enum rm_node node;
        uint32_t request;
        enum gate_action action;
};

static void each_request_has_its_action(void **state)
{
        static const struct row rows[] = {
                { RM_NODE_CTL, RM_REQUEST(RM_NR_FREE, 16), GATE_FREE },
                { RM_NODE_CTL, RM_REQUEST(RM_NR_DUP, 28), GATE_DUP },
                { RM_NODE_CTL, RM_REQUEST(RM_NR_SHARE, 24), GATE_SHARE },
                { RM_NODE_CTL, RM_REQUEST(RM_NR_MAP_MEMORY, 56), GATE_MAP },
                { RM_NODE_CTL, RM_REQUEST(RM_NR_UNMAP_MEMORY, 32), GATE_PERFORM },
                { RM_NODE_CTL, RM_REQUEST(RM_NR_CARD_INFO, 72), GATE_VIEW },
                { RM_NODE_CTL, RM_REQUEST(RM_NR_REGISTER_FD, 4), GATE_PERFORM },
                { RM_NODE_CTL, RM_REQUEST(RM_NR_EVENT_DATA, 16), GATE_PERFORM },
                { RM_NODE_CTL, RM_REQUEST(RM_NR_CHECK_VERSION, 72), GATE_PERFORM },
                { RM_NODE_UVM, UVM_INITIALIZE, GATE_SPACE },
                { RM_NODE_UVM, UVM_MAP_EXTERNAL, GATE_HOLD },
                { RM_NODE_UVM, UVM_FREE, GATE_RELEASE },
                { RM_NODE_UVM, UVM_UNMAP_EXTERNAL, GATE_RELEASE },
                { RM_NODE_UVM, UVM_CREATE_EXTERNAL, GATE_RANGE },
                { RM_NODE_UVM, UVM_SEMAPHORE_POOL, GATE_POOL },
                { RM_NODE_UVM, UVM_REGISTER_GPU, GATE_JOIN },
                { RM_NODE_UVM, 51, GATE_MOVE }, /* migrate */
                { RM_NODE_UVM, UVM_MM_INITIALIZE, GATE_PERFORM },
                { RM_NODE_UVM, 71, GATE_DENY }, /* faults pages of the caller: that would be us */
        };
        struct rm_layout l = h200();

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                assert_int_equal(plain(&l, rows[i].node, rows[i].request).action, rows[i].action);
}

static void every_request_of_every_release_is_decided(void **state)
{
        (void)state;
        for (size_t i = 0; i < N_RELEASES; i++) {
                struct rm_layout layout_now = layout_of_release(i), *layout = &layout_now;
                uint32_t unit = 72;

#define REQUEST(kind, node, nr, bytes_, status, fd, client, meaning)                                                   \
        if ((bytes_) != RM_ABSENT && RM_##kind != RM_XFER) {                                                           \
                struct gate_verdict v = plain(layout, RM_NODE_##node,                                                  \
                                              RM_NODE_##node == RM_NODE_UVM ?                                          \
                                                      (nr) :                                                           \
                                                      RM_REQUEST(nr, RM_##kind == RM_CARD_INFO ? unit : (bytes_)));    \
                                                                                                                       \
                assert_int_not_equal(v.action, GATE_LOOKUP);                                                           \
                assert_non_null(v.because);                                                                            \
                assert_true(v.action == GATE_DENY || v.error == 0);                                                    \
        }
#include "rm/requests.def"
#undef REQUEST
        }
}

static void an_inner_request_is_unwrapped(void **state)
{
        struct rm_layout l = h200();
        struct sent xfer = sent(&l, RM_NODE_CTL, RM_REQUEST(RM_NR_XFER, 16));

        (void)state;
        rm_put32(xfer.block, xfer.size, 0, RM_NR_FREE);
        rm_put32(xfer.block, xfer.size, 4, 16);
        assert_int_equal(decided(&l, &xfer, NULL, 0).action, GATE_UNWRAP);
}

static void classes_have_their_actions(void **state)
{
        static const struct {
                uint32_t class_number;
                enum gate_action action;
        } rows[] = {
                { RM_CLASS_ROOT, GATE_CLIENT },
                { RM_CLASS_ROOT_NON_PRIV, GATE_CLIENT },
                { RM_CLASS_CLIENT, GATE_CLIENT },
                { RM_CLASS_DEVICE, GATE_OBJECT },
                { RM_CLASS_SUBDEVICE, GATE_OBJECT },
                { RM_CLASS_GROUP, GATE_OBJECT },
                { RM_CLASS_OS_EVENT, GATE_OBJECT },
                { 0x90f1, GATE_OBJECT },
                { 0x50a0, GATE_OBJECT },
                { RM_CLASS_CONTEXT_SHARE, GATE_OBJECT },
                { RM_CLASS_OS_DESCRIPTOR, GATE_DENY }, /* raw kernel pointers, through this request */
                { 0x90cd, GATE_DENY },
                { 0x90ce, GATE_DENY },
                { 0xc639, GATE_DENY },
                { 0x73, GATE_DENY },
        };
        struct rm_layout l = h200();

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct gate_verdict v = class_verdict(&l, rows[i].class_number);

                assert_int_equal(v.action, rows[i].action);
                assert_false(v.is_unknown);
                assert_true(v.action != GATE_DENY || (v.status && !v.error));
        }
}

/* What makes memory, or a way around the quota, and has no rule: docs/rm-abi.md 2.1. */
static void other_ways_to_memory_are_refused(void **state)
{
        static const uint32_t classes[] = { 0x3f, 0x42, 0x50,   0x76,   0x81,   0x82,  0x83, 0xb1,
                                            0xc2, 0xf3, 0xcbca, 0xc763, 0xc863, 0x100, 0x101 };
        static const uint32_t old[] = { 0x70, 0x76, 0x81, 0x82, 0x83, 0xf3, 0, 0xffffffff };
        static const uint32_t functions[] = { 0, 1, 6, 11, 14, 15, 16, 18, 19, 20, 27, 0x80000002 };
        struct rm_layout l = h200();

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(classes); i++) {
                struct gate_verdict v = class_verdict(&l, classes[i]);

                assert_int_equal(v.action, GATE_DENY);
                assert_int_equal(v.status, RM_STATUS_INVALID_CLASS);
                assert_true(v.is_unknown);
        }
        for (size_t i = 0; i < ARRAY_SIZE(old); i++) {
                struct sent block = sent(&l, RM_NODE_DEVICE, RM_REQUEST(RM_NR_ALLOC_MEMORY, 56));

                rm_put32(block.block, block.size, 12, old[i]);
                assert_int_equal(decided(&l, &block, NULL, 0).action, GATE_DENY);
        }
        for (size_t i = 0; i < ARRAY_SIZE(functions); i++) {
                struct sent block = sent(&l, RM_NODE_CTL, RM_REQUEST(RM_NR_VID_HEAP, 184));

                rm_put32(block.block, block.size, 8, functions[i]);
                assert_int_equal(decided(&l, &block, NULL, 0).action, GATE_DENY);
                assert_int_equal(decided(&l, &block, NULL, 0).status, RM_STATUS_NOT_SUPPORTED);
        }
        assert_int_equal(plain(&l, RM_NODE_CTL, RM_REQUEST(RM_NR_EXPORT_DMABUF, l.export_dmabuf_size)).action,
                         GATE_DENY);
        assert_int_equal(plain(&l, RM_NODE_UVM, 78).action, GATE_DENY); /* holds memory for peers */
}

static struct gate_verdict old_verdict(const struct rm_layout *l, uint32_t request, uint32_t class_number)
{
        struct sent block = sent(l, RM_NODE_DEVICE, RM_REQUEST(request, 56));

        rm_put32(block.block, block.size, 12, class_number);
        return decided(l, &block, NULL, 0);
}

/* Each part of the driver beside compute needs its capability; what all programs ask needs none. */
static void parts_of_the_driver_need_their_capability(void **state)
{
        enum { CONTEXT_DMA = 0x54 };
        static const struct {
                uint32_t number;
                unsigned int capability;
        } classes[] = { { 0xb8b0, CAPABILITY_VIDEO },    { 0xb8d1, CAPABILITY_VIDEO },   { 0xc7b7, CAPABILITY_VIDEO },
                        { 0xcb97, CAPABILITY_GRAPHICS }, { 0xda, CAPABILITY_GRAPHICS },  { 0xfe, CAPABILITY_GRAPHICS },
                        { 0x90cc, CAPABILITY_PROFILE },  { 0xb2cc, CAPABILITY_PROFILE }, { 0xcbc0, CAPABILITY_NONE },
                        { 0x40, CAPABILITY_NONE } };
        struct rm_layout l = h200();

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(classes); i++)
                assert_int_equal(class_verdict(&l, classes[i].number).capability, classes[i].capability);
        assert_int_equal(control(&l, 0xc36f010a).capability, CAPABILITY_VIDEO | CAPABILITY_GRAPHICS);
        assert_int_equal(control(&l, 0xb0cc010a).capability, CAPABILITY_PROFILE);
        assert_int_equal(control(&l, 0x20801303).capability, CAPABILITY_NONE);
        /* whole registers and memory, by the old request: an empty object, for graphics only */
        assert_int_equal(old_verdict(&l, RM_NR_ALLOC_MEMORY, 0x3f).action, GATE_HOLLOW);
        assert_int_equal(old_verdict(&l, RM_NR_ALLOC_MEMORY, 0x40).action, GATE_HOLLOW);
        assert_int_equal(old_verdict(&l, RM_NR_ALLOC_MEMORY, 0x40).capability, CAPABILITY_GRAPHICS);
        assert_true(old_verdict(&l, RM_NR_ALLOC_MEMORY, 0x40).most == UINT64_MAX); /* what is mapped in it is charged */
        /* the class of a context DMA is one, and no memory by another door */
        assert_int_equal(old_verdict(&l, CONTEXT_DMA, 0x02).action, GATE_OBJECT);
        assert_int_equal(old_verdict(&l, CONTEXT_DMA, 0x3e).action, GATE_DENY);
        assert_int_equal(old_verdict(&l, CONTEXT_DMA, 0x40).action, GATE_DENY);
        assert_int_equal(old_verdict(&l, RM_NR_ALLOC_MEMORY, 0x02).action, GATE_DENY);
}

static void what_has_no_rule_is_refused_in_the_drivers_words(void **state)
{
        struct rm_layout l = h200();
        struct gate_verdict v = class_verdict(&l, 0x1234);

        (void)state;
        assert_int_equal(v.action, GATE_DENY);
        assert_int_equal(v.status, RM_STATUS_INVALID_CLASS);
        assert_int_equal(v.error, 0);
        v = control(&l, 0x20801234);
        assert_int_equal(v.action, GATE_DENY);
        assert_int_equal(v.status, RM_STATUS_NOT_SUPPORTED);
        assert_true(v.is_unknown);
        assert_int_equal(v.error, 0);
        v = plain(&l, RM_NODE_CTL, RM_REQUEST(RM_NR_EXPORT_DMABUF, l.export_dmabuf_size));
        assert_int_equal(v.error, -EINVAL);
}

/* A control that is one bit away from one with a rule is another control. */
static void no_control_is_decided_by_a_part_of_its_number(void **state)
{
        struct rm_layout l = h200();

        (void)state;
        for (unsigned int bit = 0; bit < 32; bit++) {
                struct gate_verdict v = control(&l, 0x20800133u ^ 1u << bit);
                struct gate_verdict restart_cache = control(&l, 0x20800133u ^ 1u << bit);

                assert_int_equal(v.action, restart_cache.action);
                if (bit >= 16) /* the object's class: none of these has such a control */
                        assert_int_equal(v.action, GATE_DENY);
        }
}

/* docs/rm-abi.md 4: what steers time. */
static void a_tenant_does_not_steer_its_time_or_anybodys(void **state)
{
        static const uint32_t accepted[] = { 0xa06c0103, 0xa06c0104, 0xa06c0105, 0x2080220a, 0x2080220b,
                                             0x2080220c, 0x2080220d, 0x2080220f, 0x20802210 };
        static const uint32_t denied[] = {
                0xa06c0107, 0xa06f0109, 0xa06c0110, 0xa06f0111, 0x2080110b, 0x0080170f, 0x20801115, 0x20800194,
                0x00801705, 0x00801711, 0x00801712, 0x00801714, 0x00000283, 0xa06c0109, 0x2080110c, 0x20801116,
                0x20801119, 0x20801110, 0x20801120, 0x20801121, 0x20801122, 0x2080110e, 0x20801102, 0x20801103,
                0x20801104, 0x2080111a, 0x2080111c, 0xa06c0201, 0xa06c0202, 0xb06f010b, 0xb06f010c, 0x506f0105,
        };
        static const uint32_t resets_and_observers[] = {
                0x208001a9, 0x208001aa, 0x208001ac, 0x208001ad, 0x20800b02, 0x00000b03, 0x20801231,
                0x20801238, 0x20801215, 0x20802096, 0x2080121c, 0x20800407, 0x00000602, 0x0000013d,
        };
        struct rm_layout l = h200();

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(accepted); i++) {
                assert_int_equal(control(&l, accepted[i]).action, GATE_ACCEPT);
                assert_int_equal(control(&l, accepted[i]).status, RM_STATUS_OK);
        }
        for (size_t i = 0; i < ARRAY_SIZE(denied); i++) {
                assert_int_equal(control(&l, denied[i]).action, GATE_DENY);
                assert_int_not_equal(control(&l, denied[i]).status, RM_STATUS_OK);
        }
        for (size_t i = 0; i < ARRAY_SIZE(resets_and_observers); i++)
                assert_int_equal(control(&l, resets_and_observers[i]).action, GATE_DENY);
}

/* Lists that would show the neighbours are answered as empty: what asked them goes on. */
static void what_shows_the_neighbours_is_empty(void **state)
{
        static const uint32_t empty[] = { 0x00000b04, 0x2080016d, 0x2080016e, 0x2080017b, 0x2080017c };
        struct rm_layout l = h200();

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(empty); i++) {
                assert_int_equal(control(&l, empty[i]).action, GATE_ACCEPT);
                assert_int_equal(control(&l, empty[i]).status, RM_STATUS_OK);
        }
}

static void a_debugger_needs_a_capability(void **state)
{
        static const uint32_t debugger[] = { 0x83de0315, 0x83de0316, 0x83de0317, 0x83de0318 };
        struct rm_layout l = h200();

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(debugger); i++)
                assert_int_equal(control(&l, debugger[i]).capability, CAPABILITY_PROFILE);
}

/* Not what somebody tries who has something in mind: libcuda and NVML ask at every start (tests/trace). An operator
 * should not have to read of it. */
static void what_every_program_asks_is_refused_quietly(void **state)
{
        struct rm_layout l = h200();

        (void)state;
        assert_true(class_verdict(&l, 0xc639).is_quiet);
        assert_true(class_verdict(&l, 0xc640).is_quiet);
        assert_false(control(&l, 0x2080110b).is_quiet);
        assert_false(class_verdict(&l, 0x90cd).is_quiet);
        assert_false(control(&l, 0x00001234).is_quiet);
}

/* libcuda asks for it where a wait has lasted for a second, and takes a refusal for the end of the work. */
static void a_wait_may_be_long(void **state)
{
        struct rm_layout l = h200();

        (void)state;
        assert_int_equal(control(&l, 0x20801702).action, GATE_PERFORM);
}

static void what_shows_the_device_is_shown_in_part(void **state)
{
        static const uint32_t views[] = { RM_GET_ATTACHED_IDS, RM_GET_PROBED_IDS, 0x288,
                                          RM_GET_PIDS,         RM_GET_PID_INFO,   RM_FB_GET_INFO_V2 };
        struct rm_layout l = h200();
        struct sent info = sent(&l, RM_NODE_CTL, RM_REQUEST(RM_NR_VID_HEAP, 184));

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(views); i++)
                assert_int_equal(control(&l, views[i]).action, GATE_VIEW);
        rm_put32(info.block, info.size, 8, 5);
        assert_int_equal(decided(&l, &info, NULL, 0).action, GATE_VIEW);
}

/* Of the fabric a tenant has its own memory's addresses; what is named to others, on this host or another, and what
 * lies on several devices at once, it has not. */
static void of_the_fabric_there_is_only_its_own_memory(void **state)
{
        static const uint32_t classes[] = { 0xe0, 0xf1, 0xf9, 0xfb, 0xfd };
        struct rm_layout l = h200();
        uint8_t params[48] = { 0 };
        struct sent fabric = alloc_of(&l, 0xf8);
        struct gate_verdict v;

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(classes); i++) {
                v = class_verdict(&l, classes[i]);
                assert_int_equal(v.action, GATE_DENY);
                assert_int_equal(v.status, RM_STATUS_INVALID_CLASS);
                assert_false(v.is_unknown);
        }
        rm_put64(params, sizeof(params), GATE_FABRIC_SIZE_AT, GIB);
        v = decided(&l, &fabric, params, sizeof(params));
        assert_int_equal(v.action, GATE_FABRIC);
        assert_int_equal(v.size, GIB);
        assert_int_equal(decided(&l, &fabric, params, 40).action, GATE_DENY);
        assert_int_equal(control(&l, 0x00f80103).action, GATE_PERFORM);
        assert_int_equal(control(&l, 0x00f80104).action, GATE_PERFORM);
        assert_int_equal(control(&l, 0x00f80102).action, GATE_DENY); /* the addresses themselves */
        assert_int_equal(control(&l, 0x00f80106).action, GATE_DENY); /* up to 550: makes handles that nobody counted */
}

static void memory_moves_by_descriptor_under_the_books(void **state)
{
        struct rm_layout l = h200();

        (void)state;
        assert_int_equal(control(&l, 0x3d05).action, GATE_EXPORT);
        assert_int_equal(control(&l, 0x3d0b).action, GATE_EXPORT);
        assert_int_equal(control(&l, 0x3d06).action, GATE_IMPORT);
        assert_int_equal(control(&l, 0x3d0c).action, GATE_IMPORT);
        assert_int_equal(control(&l, 0x3d0a).action, GATE_DENY); /* no rule */
        assert_int_equal(control(&l, 0x00fd0102).action, GATE_DENY);
}

static struct gate_verdict mode_verdict(uint32_t flags, uint32_t graphics, uint32_t compute, size_t size)
{
        struct rm_layout l = h200();
        struct sent sent = control_of(&l, 0x20801210);
        uint8_t params[32] = { 0 };

        rm_put32(params, sizeof(params), 0, flags);
        rm_put32(params, sizeof(params), 4, 0x5c000015);
        rm_put32(params, sizeof(params), 8, graphics);
        rm_put32(params, sizeof(params), 12, compute);
        return decided(&l, &sent, params, size);
}

static void a_context_is_preempted_as_programs_ask(void **state)
{
        (void)state;
        assert_int_equal(mode_verdict(1, 0, 2, 32).action, GATE_PERFORM); /* CUDA */
        assert_int_equal(mode_verdict(1, 0, 2, 32).capability, CAPABILITY_NONE);
        assert_int_equal(mode_verdict(1, 0, 1, 32).action, GATE_PERFORM); /* Vulkan, OpenGL */
        assert_int_equal(mode_verdict(1, 0, 1, 32).capability, CAPABILITY_GRAPHICS);
        assert_int_equal(mode_verdict(1, 0, 0, 32).action, GATE_DENY); /* when its kernels have ended */
        assert_int_equal(mode_verdict(1, 0, 3, 32).action, GATE_DENY);
        assert_int_equal(mode_verdict(1, 0, 2, 31).action, GATE_DENY);
        for (uint32_t flags = 0; flags < 16; flags++)
                assert_int_equal(mode_verdict(flags, 0, 2, 32).action, flags == 1 ? GATE_PERFORM : GATE_DENY);
        assert_int_equal(mode_verdict(0x80000001, 0, 2, 32).action, GATE_DENY);
}

static void every_channel_class_is_a_channel(void **state)
{
        struct rm_layout l = h200();
        struct gate_verdict known = class_verdict(&l, 0xc86f);
        size_t n = 0;

        (void)state;
        assert_int_equal(known.action, GATE_OBJECT);
        for (uint32_t number = 0; number <= 0xffff; number++) {
                struct gate_verdict v;

                if (!RM_CLASS_IS_CHANNEL(number))
                        continue;
                v = class_verdict(&l, number);
                assert_int_equal(v.action, GATE_OBJECT);
                assert_string_equal(v.because, known.because);
                n++;
        }
        assert_int_equal(n, 255);
        assert_int_equal(class_verdict(&l, 0x6e).action, GATE_DENY);
}

/* Memory. */

static void video_memory_costs_whole_pages(void **state)
{
        static const struct {
                struct memory asked;
                bytes cost;
        } rows[] = {
                { { .size = 1 }, 64 * KIB },
                { { .size = 64 * KIB }, 64 * KIB },
                { { .size = 64 * KIB + 1 }, 128 * KIB },
                { { .size = 2 * MIB - 1 }, 2 * MIB },
                { { .size = 2 * MIB }, 2 * MIB },
                { { .size = 2 * MIB + 1 }, 4 * MIB }, /* left to the driver: 2 MiB pages */
                { { .size = 3 * MIB, .attr = BIG_PAGES }, 3 * MIB },
                { { .size = 3 * MIB, .attr = SMALL_PAGES }, 3 * MIB },
                { { .size = 1, .attr = SMALL_PAGES }, 64 * KIB }, /* what the heap takes */
                { { .size = 1, .attr = HUGE_PAGES }, 2 * MIB },
                { { .size = 3 * MIB, .attr = HUGE_PAGES }, 4 * MIB },
                { { .size = 3 * MIB, .attr = HUGE_PAGES, .attr2 = 1u << 20 }, 4 * MIB },
                { { .size = 3 * MIB, .attr = HUGE_PAGES, .attr2 = 2u << 20 }, 512 * MIB },
                { { .size = 3 * MIB, .attr = HUGE_PAGES, .attr2 = 3u << 20 }, 256 * GIB },
                { { .size = 20 * MIB, .flags = 0x1c101, .attr = 0x11800000, .attr2 = 0x100005 }, 20 * MIB },
                { { .size = 0 }, 64 * KIB }, /* the driver refuses it; it is not free */
        };
        (void)state;
        for (size_t r = 0; r < N_RELEASES; r++) {
                struct rm_layout l = layout_of_release(r);

                for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                        struct gate_verdict v = memory(&l, RM_CLASS_VIDEO_MEMORY, rows[i].asked);

                        assert_int_equal(v.action, GATE_CHARGE);
                        assert_int_equal(v.size, rows[i].cost);
                }
        }
}

static void a_size_beyond_reason_is_never_a_small_one(void **state)
{
        static const uint64_t sizes[] = { INT64_MAX,          (uint64_t)INT64_MAX + 1, UINT64_MAX,
                                          UINT64_MAX - 65535, UINT64_MAX - 65536,      UINT64_MAX - 2 * MIB + 1,
                                          (uint64_t)1 << 62,  UINT64_MAX - 4095 };
        static const uint32_t attrs[] = { 0, SMALL_PAGES, BIG_PAGES, HUGE_PAGES };
        struct rm_layout l = h200();

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
                for (size_t k = 0; k < ARRAY_SIZE(attrs); k++)
                        for (uint32_t page = 0; page < 4; page++) {
                                struct memory asked = { .attr = attrs[k], .attr2 = page << 20, .size = sizes[i] };

                                assert_true(memory(&l, RM_CLASS_VIDEO_MEMORY, asked).size >= sizes[i]);
                                asked.attr |= IN_HOST_MEMORY;
                                assert_true(memory(&l, RM_CLASS_HOST_MEMORY, asked).size >= sizes[i]);
                        }
}

static void what_is_not_plain_video_memory_is_refused(void **state)
{
        static const struct memory refused[] = {
                { .size = MIB, .flags = FIXED },           { .size = MIB, .flags = 0xffffffff },
                { .size = MIB, .flags = RM_FLAG_VIRTUAL }, { .size = MIB, .flags = RM_FLAG_VIRTUAL | 0x04000000 },
                { .size = MIB, .attr = IN_HOST_MEMORY },   { .size = MIB, .attr = ANYWHERE },
                { .size = MIB, .attr = 2u << 25 },
        };
        struct rm_layout l = h200();

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
                struct gate_verdict v = memory(&l, RM_CLASS_VIDEO_MEMORY, refused[i]);

                assert_int_equal(v.action, GATE_DENY);
                assert_int_equal(v.status, RM_STATUS_INVALID_ARGUMENT);
                assert_int_equal(v.error, 0);
                assert_int_equal(v.size, 0);
        }
}

static void an_address_space_is_a_new_one_or_of_the_tenants_device(void **state)
{
        struct rm_layout l = h200();
        struct sent alloc = alloc_of(&l, RM_CLASS_ADDRESS_SPACE);

        (void)state;
        for (uint32_t index = 0; index < 300; index++) {
                uint8_t params[64] = { 0 };
                struct gate_verdict v;

                rm_put32(params, sizeof(params), 0, index);
                v = decided(&l, &alloc, params, l.vaspace_params_size);
                assert_int_equal(v.action, index == 0 || index == 3 ? GATE_OBJECT : GATE_DENY);
        }
}

static void short_parameters_are_refused(void **state)
{
        struct rm_layout l = h200();
        struct sent video = alloc_of(&l, RM_CLASS_VIDEO_MEMORY), host = alloc_of(&l, RM_CLASS_HOST_MEMORY);
        uint8_t params[128];

        (void)state;
        memory_write(&(struct memory){ .size = MIB }, params);
        for (size_t size = 0; size < 120; size++) {
                assert_int_equal(decided(&l, &video, params, size).action, GATE_DENY);
                assert_int_equal(decided(&l, &video, params, size).status, RM_STATUS_INVALID_PARAM_STRUCT);
                assert_int_equal(decided(&l, &host, params, size).action, GATE_DENY);
        }
        assert_int_equal(decided(&l, &video, params, 120).action, GATE_CHARGE);
}

static void the_short_block_is_the_long_one(void **state)
{
        (void)state;
        for (size_t i = 0; i < N_RELEASES; i++) {
                struct rm_layout l = layout_of_release(i);
                struct sent alloc = sent(&l, RM_NODE_CTL, RM_REQUEST(RM_NR_ALLOC, 32));
                uint8_t params[128];

                rm_put32(alloc.block, alloc.size, 12, RM_CLASS_VIDEO_MEMORY);
                memory_write(&(struct memory){ .size = 5 * MIB }, params);
                assert_int_equal(decided(&l, &alloc, params, 120).action, GATE_CHARGE);
                assert_int_equal(decided(&l, &alloc, params, 120).size, 6 * MIB);
                memory_write(&(struct memory){ .size = 5 * MIB, .flags = FIXED }, params);
                assert_int_equal(decided(&l, &alloc, params, 120).action, GATE_DENY);
        }
}

static void host_memory_costs_whole_pages(void **state)
{
        struct rm_layout l = h200();
        struct sent old = sent(&l, RM_NODE_DEVICE, RM_REQUEST(RM_NR_ALLOC_MEMORY, 56));
        struct gate_verdict v = memory(&l, RM_CLASS_HOST_MEMORY, (struct memory){ .size = 4097 });

        (void)state;
        assert_int_equal(v.action, GATE_HOST);
        assert_int_equal(v.size, 8192);

        rm_put32(old.block, old.size, 12, RM_CLASS_HOST_MEMORY);
        rm_put64(old.block, old.size, 32, 4096); /* a limit: the last byte */
        v = decided(&l, &old, NULL, 0);
        assert_int_equal(v.action, GATE_HOST);
        assert_int_equal(v.size, 8192);

        rm_put64(old.block, old.size, 32, UINT64_MAX);
        assert_int_equal(decided(&l, &old, NULL, 0).size, UINT64_MAX); /* not 0: it wraps */

        rm_put32(old.block, old.size, 12, RM_CLASS_OS_DESCRIPTOR);
        assert_int_equal(decided(&l, &old, NULL, 0).action, GATE_CONTINUE);
}

static struct gate_verdict heap(const struct rm_layout *l, struct memory what)
{
        struct sent block = sent(l, RM_NODE_CTL, RM_REQUEST(RM_NR_VID_HEAP, 184));

        rm_put32(block.block, block.size, 8, 2);
        rm_put32(block.block, block.size, 52, what.flags);
        rm_put32(block.block, block.size, 56, what.attr);
        rm_put64(block.block, block.size, 88, what.size);
        rm_put32(block.block, block.size, 144, what.attr2);
        return decided(l, &block, NULL, 0);
}

static void the_old_heap_call_costs_the_same(void **state)
{
        struct rm_layout l = h200();

        (void)state;
        assert_int_equal(heap(&l, (struct memory){ .size = 3 * MIB }).action, GATE_CHARGE);
        assert_int_equal(heap(&l, (struct memory){ .size = 3 * MIB }).size, 4 * MIB);
        assert_int_equal(heap(&l, (struct memory){ .size = 1, .attr = HUGE_PAGES, .attr2 = 2u << 20 }).size, 512 * MIB);
        assert_int_equal(heap(&l, (struct memory){ .size = UINT64_MAX }).size, UINT64_MAX);
        assert_int_equal(heap(&l, (struct memory){ .size = 1, .flags = FIXED }).action, GATE_DENY);
        assert_int_equal(heap(&l, (struct memory){ .size = 1, .flags = RM_FLAG_VIRTUAL }).action, GATE_OBJECT);
        assert_int_equal(heap(&l, (struct memory){ .size = 1, .attr = ANYWHERE }).action, GATE_HOST);
        assert_int_equal(heap(&l, (struct memory){ .size = 1, .attr = IN_HOST_MEMORY }).size, 4096);
        /* addresses at a fixed place: Vulkan's */
        assert_int_equal(heap(&l, (struct memory){ .flags = RM_FLAG_VIRTUAL | FIXED }).action, GATE_OBJECT);
}

/* Bytes that would mean something else to the driver than they do to us. */

static void serialised_parameters_are_refused(void **state)
{
        (void)state;
        for (size_t i = 0; i < N_RELEASES; i++) {
                struct rm_layout l = layout_of_release(i);
                struct sent alloc = alloc_of(&l, RM_CLASS_VIDEO_MEMORY);
                struct sent asked = control_of(&l, RM_SET_TIMESLICE),
                            free_ = sent(&l, RM_NODE_CTL, RM_REQUEST(RM_NR_FREE, 16));
                uint8_t params[128];

                memory_write(&(struct memory){ .size = MIB }, params);
                rm_put32(alloc.block, alloc.size, l.alloc_status_at - 4, 1);
                assert_int_equal(decided(&l, &alloc, params, 120).action, GATE_DENY);
                rm_put32(alloc.block, alloc.size, l.alloc_status_at - 4, 0);
                assert_int_equal(decided(&l, &alloc, params, 120).action, GATE_CHARGE);

                rm_put32(asked.block, asked.size, 12, 4);
                assert_int_equal(decided(&l, &asked, params, 4).action, GATE_DENY);
                rm_put32(asked.block, asked.size, 12, 0xffffffff);
                assert_int_equal(decided(&l, &asked, params, 4).action, GATE_DENY);

                memset(free_.block, 0xff, free_.size); /* has no such flag */
                assert_int_equal(decided(&l, &free_, NULL, 0).action, GATE_FREE);
        }
}

static void a_root_is_a_client_by_whatever_number(void **state)
{
        static const uint32_t numbers[] = { RM_CLASS_ROOT, RM_CLASS_ROOT_NON_PRIV, RM_CLASS_CLIENT };
        struct rm_layout l = h200();

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
                struct sent alloc = alloc_of(&l, numbers[i]);

                assert_int_equal(decided(&l, &alloc, NULL, 0).action, GATE_CLIENT);
        }
}

/* Names of others. */

static void clients_in_parameters_are_found(void **state)
{
        struct rm_layout l = h200();
        struct sent device = alloc_of(&l, RM_CLASS_DEVICE), event = alloc_of(&l, RM_CLASS_OS_EVENT);
        struct sent memory_ = alloc_of(&l, RM_CLASS_VIDEO_MEMORY), bind = control_of(&l, 0x20801211);
        struct sent same_number = control_of(&l, RM_CLASS_DEVICE);
        struct rm_call call = decoded(&l, &device);
        const uint32_t *offsets;

        (void)state;
        assert_int_equal(gate_client_fields(&call, &offsets), 2);
        assert_int_equal(offsets[0], 4);
        assert_int_equal(offsets[1], 8);
        call = decoded(&l, &event);
        assert_int_equal(gate_client_fields(&call, &offsets), 1);
        assert_int_equal(offsets[0], 0);
        call = decoded(&l, &bind);
        assert_int_equal(gate_client_fields(&call, &offsets), 1);
        assert_int_equal(offsets[0], 4);
        call = decoded(&l, &memory_);
        assert_int_equal(gate_client_fields(&call, &offsets), 0);
        call = decoded(&l, &same_number); /* a control is no class */
        assert_int_equal(gate_client_fields(&call, &offsets), 0);
}

static void descriptors_in_parameters_are_found(void **state)
{
        struct rm_layout l = h200();
        struct sent one = control_of(&l, 0x3d05), many = control_of(&l, 0x3d0b), none = control_of(&l, 0x3d0a);
        struct rm_call call = decoded(&l, &one);

        (void)state;
        assert_int_equal(gate_params_fd(&call), 16);
        call = decoded(&l, &many);
        assert_int_equal(gate_params_fd(&call), 0);
        call = decoded(&l, &none);
        assert_int_equal(gate_params_fd(&call), UINT32_MAX);
}

static uint32_t subscribes(const struct lease *lease, uint32_t class_number, uint32_t id, uint32_t parent, int device)
{
        struct ledger_object on = { .class_number = parent, .device = device };
        uint8_t params[16] = { 0 };

        rm_put32(params, sizeof(params), 8, id);
        return gate_check_instance(lease, class_number, params, sizeof(params), &on);
}

static void a_tenant_subscribes_to_the_instance_of_its_lease_and_no_other(void **state)
{
        enum { GPU = 0xc637, COMPUTE = 0xc638, ALL = 0xfffffffe /* NVC637_DEVICE_PROFILING_SWIZZID */ };
        struct lease lease = { .n_devices = 2 };
        const uint32_t on = RM_CLASS_SUBDEVICE;
        uint8_t few[12] = { 0 };

        (void)state;
        lease.devices[0].is_granted = lease.devices[1].is_granted = true;
        assert_int_equal(subscribes(&lease, GPU, 0, on, 0), RM_STATUS_INSUFFICIENT_PERMISSIONS);
        lease.devices[1].mig.is_one = true;
        lease.devices[1].mig.gpu = 3;
        lease.devices[1].mig.compute = 1;
        assert_int_equal(subscribes(&lease, GPU, 3, on, 1), RM_STATUS_OK);
        assert_int_equal(subscribes(&lease, COMPUTE, 1, GPU, 1), RM_STATUS_OK);
        assert_int_equal(subscribes(&lease, GPU, 3, on, 0), RM_STATUS_INSUFFICIENT_PERMISSIONS);
        assert_int_equal(subscribes(&lease, GPU, 3, on, -1), RM_STATUS_INSUFFICIENT_PERMISSIONS);
        assert_int_equal(subscribes(&lease, GPU, 1, on, 1), RM_STATUS_INSUFFICIENT_PERMISSIONS);
        assert_int_equal(subscribes(&lease, GPU, ALL, on, 1), RM_STATUS_INSUFFICIENT_PERMISSIONS);
        assert_int_equal(subscribes(&lease, COMPUTE, 3, GPU, 1), RM_STATUS_INSUFFICIENT_PERMISSIONS);
        assert_int_equal(subscribes(&lease, COMPUTE, 1, on, 1), RM_STATUS_INVALID_ARGUMENT);
        assert_int_equal(subscribes(&lease, GPU, 3, RM_CLASS_CLIENT, 1), RM_STATUS_INVALID_ARGUMENT);
        assert_int_equal(gate_check_instance(&lease, GPU, few, sizeof(few),
                                             &(struct ledger_object){ .class_number = on, .device = 1 }),
                         RM_STATUS_INVALID_PARAM_STRUCT);
        assert_int_equal(subscribes(&lease, RM_CLASS_GROUP, 9, on, 0), RM_STATUS_OK);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(each_request_has_its_action),
                cmocka_unit_test(every_request_of_every_release_is_decided),
                cmocka_unit_test(an_inner_request_is_unwrapped),
                cmocka_unit_test(classes_have_their_actions),
                cmocka_unit_test(other_ways_to_memory_are_refused),
                cmocka_unit_test(parts_of_the_driver_need_their_capability),
                cmocka_unit_test(what_has_no_rule_is_refused_in_the_drivers_words),
                cmocka_unit_test(no_control_is_decided_by_a_part_of_its_number),
                cmocka_unit_test(a_tenant_does_not_steer_its_time_or_anybodys),
                cmocka_unit_test(what_shows_the_neighbours_is_empty),
                cmocka_unit_test(a_debugger_needs_a_capability),
                cmocka_unit_test(what_every_program_asks_is_refused_quietly),
                cmocka_unit_test(a_wait_may_be_long),
                cmocka_unit_test(what_shows_the_device_is_shown_in_part),
                cmocka_unit_test(of_the_fabric_there_is_only_its_own_memory),
                cmocka_unit_test(memory_moves_by_descriptor_under_the_books),
                cmocka_unit_test(a_context_is_preempted_as_programs_ask),
                cmocka_unit_test(every_channel_class_is_a_channel),
                cmocka_unit_test(video_memory_costs_whole_pages),
                cmocka_unit_test(a_size_beyond_reason_is_never_a_small_one),
                cmocka_unit_test(what_is_not_plain_video_memory_is_refused),
                cmocka_unit_test(an_address_space_is_a_new_one_or_of_the_tenants_device),
                cmocka_unit_test(short_parameters_are_refused),
                cmocka_unit_test(the_short_block_is_the_long_one),
                cmocka_unit_test(host_memory_costs_whole_pages),
                cmocka_unit_test(the_old_heap_call_costs_the_same),
                cmocka_unit_test(serialised_parameters_are_refused),
                cmocka_unit_test(a_root_is_a_client_by_whatever_number),
                cmocka_unit_test(clients_in_parameters_are_found),
                cmocka_unit_test(descriptors_in_parameters_are_found),
                cmocka_unit_test(a_tenant_subscribes_to_the_instance_of_its_lease_and_no_other),
        };

        return cmocka_run_group_tests_name("gate/policy/decide", tests, NULL, NULL);
}
