/* SPDX-License-Identifier: Apache-2.0 */
/* pictures SECONDS - NPP: turns a picture of 1080p to grey, mirrors it; its sums, and pictures a second. */
#include "clock.h"

#include <npp.h>

enum { WIDTH = 1920, HEIGHT = 1080 };

int main(int argc, char **argv)
{
        struct cudaDeviceProp about;
        NppStreamContext context = { 0 };
        NppiSize size = { WIDTH, HEIGHT };
        Npp8u *in, *grey, *mirrored, *host = (Npp8u *)malloc(WIDTH * HEIGHT * 3);
        MUST(cudaGetDeviceProperties(&about, 0));
        context.nMultiProcessorCount = about.multiProcessorCount;
        context.nMaxThreadsPerMultiProcessor = about.maxThreadsPerMultiProcessor;
        context.nMaxThreadsPerBlock = about.maxThreadsPerBlock;
        context.nSharedMemPerBlock = about.sharedMemPerBlock;
        context.nCudaDevAttrComputeCapabilityMajor = about.major;
        context.nCudaDevAttrComputeCapabilityMinor = about.minor;
        for (unsigned i = 0; i < WIDTH * HEIGHT * 3; i++)
                host[i] = (Npp8u)(i * 7);
        MUST(cudaMalloc((void **)&in, WIDTH * HEIGHT * 3));
        MUST(cudaMalloc((void **)&grey, WIDTH * HEIGHT));
        MUST(cudaMalloc((void **)&mirrored, WIDTH * HEIGHT * 3));
        MUST(cudaMemcpy(in, host, WIDTH * HEIGHT * 3, cudaMemcpyHostToDevice));
        double begin = now(), seconds = argc > 1 ? atof(argv[1]) : 0;
        unsigned done = 0;
        do {
                MUST(nppiRGBToGray_8u_C3C1R_Ctx(in, WIDTH * 3, grey, WIDTH, size, context));
                MUST(nppiMirror_8u_C3R_Ctx(in, WIDTH * 3, mirrored, WIDTH * 3, size, NPP_VERTICAL_AXIS, context));
                MUST(cudaDeviceSynchronize());
                done++;
        } while (now() < begin + seconds);
        double rate = done / (now() - begin);
        printf("grey=%llu mirrored=%llu rate=%.0f pictures/s\n", device_sum(grey, WIDTH * HEIGHT),
               device_sum(mirrored, WIDTH * HEIGHT * 3), rate);
        return 0;
}
