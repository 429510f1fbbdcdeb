/* SPDX-License-Identifier: Apache-2.0 */
/*
 * video - what a service does with the hardware decoders: asks what they can, creates them, decodes.
 *
 *      video caps                      a line per codec: 8 bit 4:2:0, is it supported, the largest picture
 *      video decoders N                creates N decoders of 1080p H.264 that all live at once
 *      video decode FILE [SECONDS]     decodes an elementary stream (.h264 or .hevc), over and over for SECONDS;
 *                                      prints the checksum of the first pass's pictures, and pictures a second; with
 *                                      VIDEO_TIMES in the environment also "at=NS done=N" each 100 ms
 *
 * The libraries are loaded at run time, with the declarations of Debian's libffmpeg-nvenc-dev.
 */
#include <ffnvcodec/dynlink_loader.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static CudaFunctions *cuda;
static CuvidFunctions *cuvid;

struct stream {
        cudaVideoCodec codec;
        CUvideodecoder decoder;
        uint64_t checksum;
        uint64_t pictures;
        int is_checked;
        uint8_t *host;
        unsigned width, height;
        int failed;
        int64_t said;
};

static void check(CUresult result, const char *what)
{
        if (result == CUDA_SUCCESS)
                return;
        printf("video: %s: error %d\n", what, result);
        exit(1);
}

static double now(void)
{
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void caps(void)
{
        static const struct {
                const char *name;
                cudaVideoCodec codec;
        } codecs[] = { { "mpeg2", cudaVideoCodec_MPEG2 }, { "h264", cudaVideoCodec_H264 },
                       { "hevc", cudaVideoCodec_HEVC },   { "vp9", cudaVideoCodec_VP9 },
                       { "av1", cudaVideoCodec_AV1 },     { "jpeg", cudaVideoCodec_JPEG } };
        for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
                CUVIDDECODECAPS asked = { .eCodecType = codecs[i].codec, .eChromaFormat = cudaVideoChromaFormat_420 };
                check(cuvid->cuvidGetDecoderCaps(&asked), "cuvidGetDecoderCaps");
                printf("caps %s supported=%d engines=%d largest=%ux%u\n", codecs[i].name, asked.bIsSupported,
                       asked.nNumNVDECs, asked.nMaxWidth, asked.nMaxHeight);
        }
}

static CUresult decoder_create(cudaVideoCodec codec, unsigned width, unsigned height, unsigned surfaces,
                               CUvideodecoder *ret)
{
        CUVIDDECODECREATEINFO info = { .ulWidth = width,
                                       .ulHeight = height,
                                       .ulNumDecodeSurfaces = surfaces,
                                       .CodecType = codec,
                                       .ChromaFormat = cudaVideoChromaFormat_420,
                                       .ulCreationFlags = cudaVideoCreate_PreferCUVID,
                                       .ulMaxWidth = width,
                                       .ulMaxHeight = height,
                                       .OutputFormat = cudaVideoSurfaceFormat_NV12,
                                       .DeinterlaceMode = cudaVideoDeinterlaceMode_Weave,
                                       .ulTargetWidth = width,
                                       .ulTargetHeight = height,
                                       .ulNumOutputSurfaces = 2 };
        return cuvid->cuvidCreateDecoder(ret, &info);
}

static void decoders(int wanted)
{
        int made = 0;
        for (; made < wanted; made++) {
                CUvideodecoder decoder;
                CUresult result = decoder_create(cudaVideoCodec_H264, 1920, 1088, 8, &decoder);
                if (result != CUDA_SUCCESS) {
                        printf("decoders error=%d\n", result);
                        break;
                }
        }
        printf("decoders=%d of %d\n", made, wanted);
}

static int on_sequence(void *user, CUVIDEOFORMAT *format)
{
        struct stream *s = user;
        int surfaces = format->min_num_decode_surfaces > 8 ? format->min_num_decode_surfaces : 8;
        if (s->decoder)
                return surfaces;
        s->width = format->coded_width;
        s->height = format->coded_height;
        s->host = malloc((size_t)s->width * s->height * 3 / 2);
        CUresult result = decoder_create(s->codec, s->width, s->height, (unsigned)surfaces, &s->decoder);
        if (result != CUDA_SUCCESS || !s->host) {
                printf("video: cuvidCreateDecoder: error %d\n", result);
                s->failed = 1;
                return 0;
        }
        return surfaces;
}

static int on_decode(void *user, CUVIDPICPARAMS *picture)
{
        struct stream *s = user;
        if (!s->failed && cuvid->cuvidDecodePicture(s->decoder, picture) != CUDA_SUCCESS)
                s->failed = 1;
        return !s->failed;
}

/* FNV-1a over 8 bytes at a time: the same on every machine, and cheap beside the copy. */
static uint64_t sum(uint64_t hash, const uint8_t *data, size_t size)
{
        for (size_t i = 0; i + 8 <= size; i += 8) {
                uint64_t word;
                memcpy(&word, data + i, 8);
                hash = (hash ^ word) * 0x100000001b3;
        }
        return hash;
}

static void say_time(struct stream *s)
{
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        int64_t at = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
        if (s->is_checked || !getenv("VIDEO_TIMES") || at - s->said < 100000000)
                return;
        s->said = at;
        printf("at=%lld done=%llu\n", (long long)at, (unsigned long long)s->pictures);
        fflush(stdout);
}

static int on_display(void *user, CUVIDPARSERDISPINFO *shown)
{
        struct stream *s = user;
        if (s->failed || !shown)
                return 0;
        CUVIDPROCPARAMS how = { .progressive_frame = shown->progressive_frame };
        CUdeviceptr frame = 0;
        unsigned pitch = 0;
        if (cuvid->cuvidMapVideoFrame(s->decoder, shown->picture_index, &frame, &pitch, &how) != CUDA_SUCCESS) {
                s->failed = 1;
                return 0;
        }
        CUDA_MEMCPY2D copy = { .srcMemoryType = CU_MEMORYTYPE_DEVICE,
                               .srcDevice = frame,
                               .srcPitch = pitch,
                               .dstMemoryType = CU_MEMORYTYPE_HOST,
                               .dstHost = s->host,
                               .dstPitch = s->width,
                               .WidthInBytes = s->width,
                               .Height = s->height * 3 / 2 };
        if (s->is_checked) {
                check(cuda->cuMemcpy2D(&copy), "cuMemcpy2D");
                s->checksum = sum(s->checksum, s->host, (size_t)s->width * s->height * 3 / 2);
        }
        s->pictures++;
        say_time(s);
        return cuvid->cuvidUnmapVideoFrame(s->decoder, frame) == CUDA_SUCCESS;
}

static void pass(struct stream *s, const uint8_t *data, size_t size)
{
        CUVIDPARSERPARAMS params = { .CodecType = s->codec,
                                     .ulMaxNumDecodeSurfaces = 8,
                                     .ulMaxDisplayDelay = 4,
                                     .pUserData = s,
                                     .pfnSequenceCallback = on_sequence,
                                     .pfnDecodePicture = on_decode,
                                     .pfnDisplayPicture = on_display };
        CUvideoparser parser;
        check(cuvid->cuvidCreateVideoParser(&parser, &params), "cuvidCreateVideoParser");
        CUVIDSOURCEDATAPACKET packet = { .payload = data, .payload_size = size, .flags = CUVID_PKT_ENDOFSTREAM };
        check(cuvid->cuvidParseVideoData(parser, &packet), "cuvidParseVideoData");
        cuvid->cuvidDestroyVideoParser(parser);
        if (s->failed) {
                printf("video: decoding failed after %llu pictures\n", (unsigned long long)s->pictures);
                exit(1);
        }
}

static uint8_t *file_read(const char *path, size_t *ret_size)
{
        FILE *f = fopen(path, "rb");
        if (!f) {
                perror(path);
                exit(1);
        }
        size_t room = 64 << 20;
        uint8_t *data = malloc(room);
        *ret_size = data ? fread(data, 1, room, f) : 0;
        fclose(f);
        return data;
}

static void decode(const char *path, double seconds)
{
        size_t size;
        uint8_t *data = file_read(path, &size);
        struct stream s = { .checksum = 0xcbf29ce484222325,
                            .is_checked = 1,
                            .codec = strstr(path, "hevc") ? cudaVideoCodec_HEVC : cudaVideoCodec_H264 };
        pass(&s, data, size);
        printf("decode %ux%u pictures=%llu checksum=%016llx\n", s.width, s.height, (unsigned long long)s.pictures,
               (unsigned long long)s.checksum);
        s.pictures = 0;
        s.is_checked = 0;
        double begin = now();
        while (now() < begin + seconds)
                pass(&s, data, size);
        if (s.pictures)
                printf("decode rate=%.0f pictures/s\n", (double)s.pictures / (now() - begin));
        cuvid->cuvidDestroyDecoder(s.decoder);
        free(s.host);
        free(data);
}

int main(int argc, char **argv)
{
        CUcontext context;
        if (cuda_load_functions(&cuda, NULL) || cuvid_load_functions(&cuvid, NULL)) {
                printf("video: libcuda or libnvcuvid is not here\n");
                return 77;
        }
        check(cuda->cuInit(0), "cuInit");
        check(cuda->cuCtxCreate(&context, 0, 0), "cuCtxCreate");
        if (argc > 1 && !strcmp(argv[1], "caps"))
                caps();
        else if (argc > 2 && !strcmp(argv[1], "decoders"))
                decoders(atoi(argv[2]));
        else if (argc > 2 && !strcmp(argv[1], "decode"))
                decode(argv[2], argc > 3 ? atof(argv[3]) : 0);
        else
                return 2;
        cuda->cuCtxDestroy(context);
        return 0;
}
