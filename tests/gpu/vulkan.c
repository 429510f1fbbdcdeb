/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vulkan - what a headless renderer does: instance, device, memory, a picture.
 *
 *      vulkan info                 devices, heaps with their sizes and budgets (VK_EXT_memory_budget)
 *      vulkan memory STEP MAX      takes device-local memory in pieces of STEP MiB until the API says that there is
 *                                  no more, or MAX MiB
 *      vulkan images MAX           the same with tiled images of 4096 x 4096 RGBA
 *      vulkan sparse MAX           a sparse buffer of MAX MiB, bound piece by piece of 64 MiB
 *      vulkan sparse-free MAX      the same, each piece freed while it is bound; what is left is taken as pieces
 *      vulkan export               memory with an opaque descriptor, and one as DMA-BUF
 *      vulkan cuda                 a buffer that CUDA imports and fills, and Vulkan reads
 *      vulkan clear [SECONDS]      clears a picture of 1024 x 1024, reads it back, checks it; pictures a second
 */
#include <ffnvcodec/dynlink_loader.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <vulkan/vulkan.h>

static VkInstance instance;
static VkPhysicalDevice physical;
static VkDevice device;
static VkQueue queue;
static uint32_t family, local_type, visible_type;

static void check(VkResult result, const char *what)
{
        if (result == VK_SUCCESS)
                return;
        printf("vulkan: %s: %d\n", what, result);
        exit(1);
}

static double now(void)
{
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int has_extension(const char *name)
{
        VkExtensionProperties list[512];
        uint32_t n = 512;
        vkEnumerateDeviceExtensionProperties(physical, NULL, &n, list);
        for (uint32_t i = 0; i < n; i++)
                if (!strcmp(list[i].extensionName, name))
                        return 1;
        return 0;
}

static void choose_types(void)
{
        VkPhysicalDeviceMemoryProperties memory;
        vkGetPhysicalDeviceMemoryProperties(physical, &memory);
        local_type = visible_type = UINT32_MAX;
        for (uint32_t i = 0; i < memory.memoryTypeCount; i++) {
                VkMemoryPropertyFlags flags = memory.memoryTypes[i].propertyFlags;
                if (local_type == UINT32_MAX && flags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT)
                        local_type = i;
                if (visible_type == UINT32_MAX && flags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT &&
                    flags & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT && !(flags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT))
                        visible_type = i;
        }
}

static void device_open(void)
{
        VkApplicationInfo app = { .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_2 };
        VkInstanceCreateInfo made = { .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &app };
        check(vkCreateInstance(&made, NULL, &instance), "vkCreateInstance");
        VkPhysicalDevice all[16];
        uint32_t n = 16;
        check(vkEnumeratePhysicalDevices(instance, &n, all), "vkEnumeratePhysicalDevices");
        for (uint32_t i = 0; i < n && !physical; i++) {
                VkPhysicalDeviceProperties about;
                vkGetPhysicalDeviceProperties(all[i], &about);
                if (about.vendorID == 0x10de) {
                        physical = all[i];
                        printf("vulkan: %s\n", about.deviceName);
                }
        }
        if (!physical) {
                printf("vulkan: no device of NVIDIA among %u\n", n);
                exit(1);
        }
        VkQueueFamilyProperties families[16];
        uint32_t found = 16;
        vkGetPhysicalDeviceQueueFamilyProperties(physical, &found, families);
        for (family = 0; family < found && !(families[family].queueFlags & VK_QUEUE_GRAPHICS_BIT);)
                family++;
        float one = 1;
        VkDeviceQueueCreateInfo asked = { .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                          .queueFamilyIndex = family,
                                          .queueCount = 1,
                                          .pQueuePriorities = &one };
        const char *wanted[] = { VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME,
                                 VK_EXT_EXTERNAL_MEMORY_DMA_BUF_EXTENSION_NAME };
        VkPhysicalDeviceFeatures features = { .sparseBinding = 1 };
        VkDeviceCreateInfo how = { .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                   .queueCreateInfoCount = 1,
                                   .pQueueCreateInfos = &asked,
                                   .pEnabledFeatures = &features,
                                   .enabledExtensionCount = has_extension(wanted[1]) ? 2 : 1,
                                   .ppEnabledExtensionNames = wanted };
        check(vkCreateDevice(physical, &how, NULL, &device), "vkCreateDevice");
        vkGetDeviceQueue(device, family, 0, &queue);
        choose_types();
}

static void info(void)
{
        VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {
                .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT
        };
        VkPhysicalDeviceMemoryProperties2 memory = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2,
                                                     .pNext = &budget };
        vkGetPhysicalDeviceMemoryProperties2(physical, &memory);
        for (uint32_t i = 0; i < memory.memoryProperties.memoryHeapCount; i++)
                printf("heap %u flags=%x size=%llu MiB budget=%llu MiB usage=%llu MiB\n", i,
                       memory.memoryProperties.memoryHeaps[i].flags,
                       (unsigned long long)memory.memoryProperties.memoryHeaps[i].size >> 20,
                       (unsigned long long)budget.heapBudget[i] >> 20, (unsigned long long)budget.heapUsage[i] >> 20);
}

static VkResult take(uint64_t size, uint32_t type, const void *next, VkDeviceMemory *ret)
{
        VkMemoryAllocateInfo asked = { .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                       .pNext = next,
                                       .allocationSize = size,
                                       .memoryTypeIndex = type };
        return vkAllocateMemory(device, &asked, NULL, ret);
}

static void memory(uint64_t step, uint64_t max)
{
        VkResult last = VK_SUCCESS;
        uint64_t got = 0;
        while (got < max) {
                VkDeviceMemory piece;
                last = take(step << 20, local_type, NULL, &piece);
                if (last != VK_SUCCESS)
                        break;
                got += step;
        }
        printf("memory got_mib=%llu step=%llu last=%d\n", (unsigned long long)got, (unsigned long long)step, last);
        info();
}

static VkImage image_make(uint32_t side, VkMemoryRequirements *ret_needs)
{
        VkImageCreateInfo how = { .sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO,
                                  .imageType = VK_IMAGE_TYPE_2D,
                                  .format = VK_FORMAT_R8G8B8A8_UNORM,
                                  .extent = { side, side, 1 },
                                  .mipLevels = 1,
                                  .arrayLayers = 1,
                                  .samples = VK_SAMPLE_COUNT_1_BIT,
                                  .tiling = VK_IMAGE_TILING_OPTIMAL,
                                  .usage = VK_IMAGE_USAGE_TRANSFER_DST_BIT | VK_IMAGE_USAGE_TRANSFER_SRC_BIT |
                                           VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT };
        VkImage image;
        check(vkCreateImage(device, &how, NULL, &image), "vkCreateImage");
        vkGetImageMemoryRequirements(device, image, ret_needs);
        return image;
}

static uint32_t type_of(const VkMemoryRequirements *needs)
{
        return needs->memoryTypeBits & 1u << local_type ? local_type : (uint32_t)__builtin_ctz(needs->memoryTypeBits);
}

static void images(uint64_t max)
{
        uint64_t got = 0;
        VkResult last = VK_SUCCESS;
        while (got >> 20 < max) {
                VkMemoryRequirements needs;
                VkImage image = image_make(4096, &needs);
                VkDeviceMemory piece;
                last = take(needs.size, type_of(&needs), NULL, &piece);
                if (last != VK_SUCCESS)
                        break;
                check(vkBindImageMemory(device, image, piece, 0), "vkBindImageMemory");
                got += needs.size;
        }
        printf("images got_mib=%llu last=%d\n", (unsigned long long)got >> 20, last);
}

static void sparse(uint64_t max, int is_freed)
{
        VkBufferCreateInfo how = { .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                   .flags = VK_BUFFER_CREATE_SPARSE_BINDING_BIT,
                                   .size = max << 20,
                                   .usage = VK_BUFFER_USAGE_TRANSFER_DST_BIT };
        VkBuffer buffer;
        check(vkCreateBuffer(device, &how, NULL, &buffer), "vkCreateBuffer sparse");
        VkResult last = VK_SUCCESS;
        uint64_t got = 0;
        for (; got < max; got += 64) {
                VkDeviceMemory piece;
                last = take(64 << 20, local_type, NULL, &piece);
                if (last != VK_SUCCESS)
                        break;
                VkSparseMemoryBind bind = { .resourceOffset = got << 20, .size = 64 << 20, .memory = piece };
                VkSparseBufferMemoryBindInfo binds = { .buffer = buffer, .bindCount = 1, .pBinds = &bind };
                VkBindSparseInfo order = { .sType = VK_STRUCTURE_TYPE_BIND_SPARSE_INFO,
                                           .bufferBindCount = 1,
                                           .pBufferBinds = &binds };
                check(vkQueueBindSparse(queue, 1, &order, VK_NULL_HANDLE), "vkQueueBindSparse");
                check(vkQueueWaitIdle(queue), "vkQueueWaitIdle");
                if (is_freed)
                        vkFreeMemory(device, piece, NULL);
        }
        printf("sparse got_mib=%llu last=%d\n", (unsigned long long)got, last);
}

static void export_one(VkExternalMemoryHandleTypeFlagBits kind, const char *name)
{
        VkExportMemoryAllocateInfo how = { .sType = VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO,
                                           .handleTypes = kind };
        VkDeviceMemory piece;
        VkResult made = take(64 << 20, local_type, &how, &piece);
        int fd = -1;
        PFN_vkGetMemoryFdKHR get = (PFN_vkGetMemoryFdKHR)vkGetDeviceProcAddr(device, "vkGetMemoryFdKHR");
        VkMemoryGetFdInfoKHR asked = { .sType = VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR,
                                       .memory = piece,
                                       .handleType = kind };
        VkResult got = made == VK_SUCCESS && get ? get(device, &asked, &fd) : VK_ERROR_UNKNOWN;
        printf("export %s allocate=%d descriptor=%s\n", name, made, got == VK_SUCCESS && fd >= 0 ? "yes" : "no");
}

static void cuda_check(CUresult result, const char *what)
{
        if (result == CUDA_SUCCESS)
                return;
        printf("cuda: %s: %d\n", what, result);
        exit(1);
}

/* Imports the descriptor's memory into CUDA and fills it with the word. */
static void cuda_fill(int fd, uint64_t size, unsigned word)
{
        CudaFunctions *cuda = NULL;
        CUcontext context;
        CUexternalMemory memory;
        CUdeviceptr at;
        CUDA_EXTERNAL_MEMORY_HANDLE_DESC from = { .type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .size = size };
        CUDA_EXTERNAL_MEMORY_BUFFER_DESC part = { .size = size };
        CUDA_MEMCPY2D copy = { .srcMemoryType = CU_MEMORYTYPE_HOST,
                               .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                               .WidthInBytes = size,
                               .Height = 1 };
        unsigned *words = malloc(size);
        for (uint64_t i = 0; words && i < size / 4; i++)
                words[i] = word;
        if (!words || cuda_load_functions(&cuda, NULL))
                exit(77);
        from.handle.fd = fd;
        cuda_check(cuda->cuInit(0), "cuInit");
        cuda_check(cuda->cuCtxCreate(&context, 0, 0), "cuCtxCreate");
        cuda_check(cuda->cuImportExternalMemory(&memory, &from), "cuImportExternalMemory");
        cuda_check(cuda->cuExternalMemoryGetMappedBuffer(&at, memory, &part), "cuExternalMemoryGetMappedBuffer");
        copy.srcHost = words;
        copy.dstDevice = at;
        cuda_check(cuda->cuMemcpy2D(&copy), "cuMemcpy2D");
        cuda_check(cuda->cuDestroyExternalMemory(memory), "cuDestroyExternalMemory");
        free(words);
}

static VkBuffer buffer_make(uint64_t size, const void *next, VkBufferUsageFlags usage)
{
        VkBufferCreateInfo how = {
                .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .pNext = next, .size = size, .usage = usage
        };
        VkBuffer buffer;
        check(vkCreateBuffer(device, &how, NULL, &buffer), "vkCreateBuffer");
        return buffer;
}

static void run(VkCommandBuffer commands)
{
        VkSubmitInfo work = { .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                              .commandBufferCount = 1,
                              .pCommandBuffers = &commands };
        check(vkQueueSubmit(queue, 1, &work, VK_NULL_HANDLE), "vkQueueSubmit");
        check(vkQueueWaitIdle(queue), "vkQueueWaitIdle");
}

static VkCommandBuffer commands_begin(void)
{
        static VkCommandPool pool;
        VkCommandPoolCreateInfo pooled = { .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                           .queueFamilyIndex = family };
        if (!pool)
                check(vkCreateCommandPool(device, &pooled, NULL, &pool), "vkCreateCommandPool");
        VkCommandBufferAllocateInfo asked = { .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                              .commandPool = pool,
                                              .commandBufferCount = 1 };
        VkCommandBuffer buffer;
        check(vkAllocateCommandBuffers(device, &asked, &buffer), "vkAllocateCommandBuffers");
        VkCommandBufferBeginInfo begin = { .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO };
        check(vkBeginCommandBuffer(buffer, &begin), "vkBeginCommandBuffer");
        return buffer;
}

static void with_cuda(void)
{
        enum { SIZE = 16 << 20, WORD = 0x5eb1e7 };
        VkExternalMemoryHandleTypeFlagBits kind = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
        VkExternalMemoryBufferCreateInfo outside = { .sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO,
                                                     .handleTypes = kind };
        VkExportMemoryAllocateInfo how = { .sType = VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO,
                                           .handleTypes = kind };
        VkBuffer shared = buffer_make(SIZE, &outside, VK_BUFFER_USAGE_TRANSFER_SRC_BIT);
        VkBuffer out = buffer_make(SIZE, NULL, VK_BUFFER_USAGE_TRANSFER_DST_BIT);
        VkDeviceMemory memory, host;
        check(take(SIZE, local_type, &how, &memory), "exported memory");
        check(take(SIZE, visible_type, NULL, &host), "host memory");
        check(vkBindBufferMemory(device, shared, memory, 0), "vkBindBufferMemory");
        check(vkBindBufferMemory(device, out, host, 0), "vkBindBufferMemory");
        PFN_vkGetMemoryFdKHR get = (PFN_vkGetMemoryFdKHR)vkGetDeviceProcAddr(device, "vkGetMemoryFdKHR");
        VkMemoryGetFdInfoKHR asked = { .sType = VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR,
                                       .memory = memory,
                                       .handleType = kind };
        int fd = -1;
        check(get(device, &asked, &fd), "vkGetMemoryFdKHR");
        cuda_fill(fd, SIZE, WORD);
        VkCommandBuffer commands = commands_begin();
        VkBufferCopy all = { .size = SIZE };
        vkCmdCopyBuffer(commands, shared, out, 1, &all);
        check(vkEndCommandBuffer(commands), "vkEndCommandBuffer");
        run(commands);
        uint32_t *words = NULL, wrong = 0;
        check(vkMapMemory(device, host, 0, VK_WHOLE_SIZE, 0, (void **)&words), "vkMapMemory");
        for (uint32_t i = 0; i < SIZE / 4; i++)
                wrong += words[i] != WORD;
        printf("cuda wrong=%u first=%x\n", wrong, words[0]);
}

static VkCommandBuffer record_clear(VkImage image, VkBuffer out, uint32_t side, float red)
{
        VkCommandBuffer buffer = commands_begin();
        VkImageMemoryBarrier general = { .sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER,
                                         .newLayout = VK_IMAGE_LAYOUT_GENERAL,
                                         .dstAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
                                         .image = image,
                                         .subresourceRange = { VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1 } };
        vkCmdPipelineBarrier(buffer, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 0, NULL, 0,
                             NULL, 1, &general);
        VkClearColorValue colour = { .float32 = { red, 0.5f, 0.25f, 1 } };
        vkCmdClearColorImage(buffer, image, VK_IMAGE_LAYOUT_GENERAL, &colour, 1, &general.subresourceRange);
        general.oldLayout = VK_IMAGE_LAYOUT_GENERAL;
        general.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
        general.dstAccessMask = VK_ACCESS_TRANSFER_READ_BIT;
        vkCmdPipelineBarrier(buffer, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 0, NULL, 0,
                             NULL, 1, &general);
        VkBufferImageCopy copy = { .imageSubresource = { VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1 },
                                   .imageExtent = { side, side, 1 } };
        vkCmdCopyImageToBuffer(buffer, image, VK_IMAGE_LAYOUT_GENERAL, out, 1, &copy);
        check(vkEndCommandBuffer(buffer), "vkEndCommandBuffer");
        return buffer;
}

static void clear(double seconds)
{
        enum { SIDE = 1024 };
        VkMemoryRequirements needs;
        VkImage image = image_make(SIDE, &needs);
        VkDeviceMemory picture, host;
        check(take(needs.size, type_of(&needs), NULL, &picture), "picture's memory");
        check(vkBindImageMemory(device, image, picture, 0), "vkBindImageMemory");
        VkBuffer out = buffer_make(SIDE * SIDE * 4, NULL, VK_BUFFER_USAGE_TRANSFER_DST_BIT);
        check(take(SIDE * SIDE * 4, visible_type, NULL, &host), "host memory");
        check(vkBindBufferMemory(device, out, host, 0), "vkBindBufferMemory");
        VkCommandBuffer buffer = record_clear(image, out, SIDE, 1);
        double begin = now();
        unsigned done = 0;
        do {
                run(buffer);
                done++;
        } while (now() < begin + seconds);
        uint32_t *pixels = NULL, wrong = 0;
        check(vkMapMemory(device, host, 0, VK_WHOLE_SIZE, 0, (void **)&pixels), "vkMapMemory");
        for (uint32_t i = 0; i < SIDE * SIDE; i++)
                wrong += (pixels[i] & 0xff) != 0xff || pixels[i] >> 24 != 0xff;
        printf("clear wrong=%u first=%08x rate=%.0f pictures/s\n", wrong, pixels[0], done / (now() - begin));
}

int main(int argc, char **argv)
{
        if (argc < 2)
                return 2;
        device_open();
        if (!strcmp(argv[1], "info"))
                info();
        else if (argc > 3 && !strcmp(argv[1], "memory"))
                memory(strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10));
        else if (argc > 2 && !strcmp(argv[1], "images"))
                images(strtoull(argv[2], NULL, 10));
        else if (argc > 2 && !strcmp(argv[1], "sparse"))
                sparse(strtoull(argv[2], NULL, 10), 0);
        else if (argc > 2 && !strcmp(argv[1], "sparse-free"))
                sparse(strtoull(argv[2], NULL, 10), 1);
        else if (!strcmp(argv[1], "export")) {
                export_one(VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT, "opaque");
                export_one(VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT, "dma-buf");
        } else if (!strcmp(argv[1], "cuda"))
                with_cuda();
        else if (!strcmp(argv[1], "clear"))
                clear(argc > 2 ? atof(argv[2]) : 0);
        else
                return 2;
        vkDestroyDevice(device, NULL);
        vkDestroyInstance(instance, NULL);
        return 0;
}
