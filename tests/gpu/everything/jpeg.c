/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jpeg - nvJPEG without a framework.
 *
 *      jpeg hardware|gpu|default SECONDS       decodes batches of 32 pictures of 1080p with that backend
 *      jpeg encode SECONDS                     encodes one of 1080p
 *
 * The pictures are encoded here, by nvJPEG. Exit status 77: the device has no such backend.
 */
#include "clock.h"

#include <nvjpeg.h>
#include <string.h>

enum { WIDTH = 1920, HEIGHT = 1080, BATCH = 32 };

static uint8_t data[BATCH][2 << 20];
static size_t lengths[BATCH];

static nvjpegImage_t picture(unsigned shift)
{
        nvjpegImage_t image = { .pitch = { WIDTH * 3 } };
        uint8_t *host = (uint8_t *)malloc(WIDTH * HEIGHT * 3);
        for (unsigned i = 0; i < WIDTH * HEIGHT; i++) {
                host[3 * i] = (uint8_t)(i % WIDTH + i / WIDTH + shift);
                host[3 * i + 1] = (uint8_t)(i % WIDTH * 2);
                host[3 * i + 2] = (uint8_t)(i / WIDTH * 3);
        }
        MUST(cudaMalloc((void **)&image.channel[0], WIDTH * HEIGHT * 3));
        MUST(cudaMemcpy(image.channel[0], host, WIDTH * HEIGHT * 3, cudaMemcpyHostToDevice));
        free(host);
        return image;
}

static void encode_all(nvjpegHandle_t handle, double seconds)
{
        nvjpegEncoderState_t state;
        nvjpegEncoderParams_t params;
        nvjpegImage_t image = picture(0);
        unsigned done = 0;
        MUST(nvjpegEncoderStateCreate(handle, &state, NULL));
        MUST(nvjpegEncoderParamsCreate(handle, &params, NULL));
        MUST(nvjpegEncoderParamsSetSamplingFactors(params, NVJPEG_CSS_420, NULL));
        MUST(nvjpegEncoderParamsSetQuality(params, 80, NULL));
        double begin = now();
        do {
                unsigned i = done++ % BATCH;
                lengths[i] = sizeof(data[i]);
                MUST(nvjpegEncodeImage(handle, state, params, &image, NVJPEG_INPUT_RGBI, WIDTH, HEIGHT, NULL));
                MUST(nvjpegEncodeRetrieveBitstream(handle, state, data[i], &lengths[i], NULL));
        } while (done < BATCH || now() < begin + seconds);
        unsigned long long sum = 0;
        for (size_t i = 0; i < lengths[0]; i++)
                sum = sum * 31 + data[0][i];
        if (seconds > 0)
                printf("encoded bytes=%zu sum=%llx rate=%.0f pictures/s\n", lengths[0], sum, done / (now() - begin));
}

static void decode(nvjpegBackend_t backend, double seconds)
{
        nvjpegHandle_t handle;
        nvjpegJpegState_t state;
        nvjpegImage_t out[BATCH];
        const unsigned char *in[BATCH];
        int status = nvjpegCreateEx(backend, NULL, NULL, 0, &handle);
        if (status) {
                printf("absent=nvjpegCreateEx: %d\n", status);
                exit(77);
        }
        MUST(nvjpegJpegStateCreate(handle, &state));
        MUST(nvjpegDecodeBatchedInitialize(handle, state, BATCH, 4, NVJPEG_OUTPUT_RGBI));
        for (int i = 0; i < BATCH; i++) {
                in[i] = data[i];
                out[i] = picture(0);
                MUST(cudaMemset(out[i].channel[0], 0, WIDTH * HEIGHT * 3));
        }
        MUST(nvjpegDecodeBatched(handle, state, in, lengths, out, NULL));
        MUST(cudaDeviceSynchronize());
        printf("decoded sum=%llu %llu\n", device_sum(out[0].channel[0], WIDTH * HEIGHT * 3),
               device_sum(out[BATCH - 1].channel[0], WIDTH * HEIGHT * 3));
        double begin = now();
        unsigned done = 0;
        do {
                MUST(nvjpegDecodeBatched(handle, state, in, lengths, out, NULL));
                MUST(cudaDeviceSynchronize());
                done += BATCH;
        } while (now() < begin + seconds);
        printf("rate=%.0f pictures/s\n", done / (now() - begin));
}

int main(int argc, char **argv)
{
        nvjpegHandle_t handle;
        if (argc < 3)
                return 2;
        MUST(nvjpegCreateSimple(&handle));
        encode_all(handle, strcmp(argv[1], "encode") == 0 ? atof(argv[2]) : 0);
        if (strcmp(argv[1], "hardware") == 0)
                decode(NVJPEG_BACKEND_HARDWARE, atof(argv[2]));
        else if (strcmp(argv[1], "gpu") == 0)
                decode(NVJPEG_BACKEND_GPU_HYBRID, atof(argv[2]));
        else if (strcmp(argv[1], "default") == 0)
                decode(NVJPEG_BACKEND_DEFAULT, atof(argv[2]));
        return 0;
}
