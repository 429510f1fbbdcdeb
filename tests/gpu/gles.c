/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gles - EGL without a display, and OpenGL ES on it.
 *
 *      gles draw [SECONDS]         draws a triangle on 1024 x 1024, reads it back; pixels drawn, pictures a second
 *      gles info                   what GL_NVX_gpu_memory_info says: KiB dedicated, in all, free
 *      gles cuda                   a buffer that CUDA registers, maps and fills, and OpenGL ES reads
 *      gles memory MAX [info]      draws on textures of 4096 x 4096 RGBA until the API says that there is no more, or
 *                                  MAX MiB are reached
 */
#include <EGL/egl.h>
#include <EGL/eglext.h>
#include <GLES3/gl3.h>
#include <dlfcn.h>
#include <ffnvcodec/dynlink_loader.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SIDE = 1024 };

static double now(void)
{
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void want(int is_true, const char *what)
{
        if (is_true)
                return;
        printf("gles: %s: EGL error %x\n", what, eglGetError());
        exit(1);
}

static void gles_open(void)
{
        PFNEGLQUERYDEVICESEXTPROC query = (PFNEGLQUERYDEVICESEXTPROC)eglGetProcAddress("eglQueryDevicesEXT");
        PFNEGLGETPLATFORMDISPLAYEXTPROC get =
                (PFNEGLGETPLATFORMDISPLAYEXTPROC)eglGetProcAddress("eglGetPlatformDisplayEXT");
        want(query && get, "no device platform");
        EGLDeviceEXT devices[16];
        EGLint n = 0;
        want(query(16, devices, &n) && n > 0, "eglQueryDevicesEXT");
        EGLDisplay display = get(EGL_PLATFORM_DEVICE_EXT, devices[0], NULL);
        want(eglInitialize(display, NULL, NULL), "eglInitialize");
        want(eglBindAPI(EGL_OPENGL_ES_API), "eglBindAPI");
        EGLint asked[] = { EGL_SURFACE_TYPE, EGL_PBUFFER_BIT, EGL_RENDERABLE_TYPE, EGL_OPENGL_ES3_BIT, EGL_RED_SIZE, 8,
                           EGL_NONE };
        EGLConfig config;
        want(eglChooseConfig(display, asked, &config, 1, &n) && n == 1, "eglChooseConfig");
        EGLint size[] = { EGL_WIDTH, SIDE, EGL_HEIGHT, SIDE, EGL_NONE };
        EGLSurface surface = eglCreatePbufferSurface(display, config, size);
        want(surface != EGL_NO_SURFACE, "eglCreatePbufferSurface");
        EGLint version[] = { EGL_CONTEXT_CLIENT_VERSION, 3, EGL_NONE };
        EGLContext context = eglCreateContext(display, config, EGL_NO_CONTEXT, version);
        want(context != EGL_NO_CONTEXT, "eglCreateContext");
        want(eglMakeCurrent(display, surface, surface, context), "eglMakeCurrent");
        printf("gles: %s, %s\n", glGetString(GL_RENDERER), glGetString(GL_VERSION));
}

static GLuint shader(GLenum kind, const char *text)
{
        GLuint made = glCreateShader(kind);
        glShaderSource(made, 1, &text, NULL);
        glCompileShader(made);
        return made;
}

static void draw(double seconds)
{
        GLuint program = glCreateProgram();
        glAttachShader(program, shader(GL_VERTEX_SHADER, "#version 300 es\n"
                                                         "void main(){vec2 p=vec2(gl_VertexID==1?3.0:-1.0,"
                                                         "gl_VertexID==2?3.0:-1.0);gl_Position=vec4(p,0,1);}"));
        glAttachShader(program, shader(GL_FRAGMENT_SHADER, "#version 300 es\nprecision highp float;out vec4 c;"
                                                           "void main(){c=vec4(1,0.5,0.25,1);}"));
        glLinkProgram(program);
        glUseProgram(program);
        unsigned char *pixels = malloc(SIDE * SIDE * 4);
        unsigned done = 0, drawn = 0;
        double begin = now();
        do {
                glClearColor(0, 0, 0, 1);
                glClear(GL_COLOR_BUFFER_BIT);
                glDrawArrays(GL_TRIANGLES, 0, 3);
                glReadPixels(0, 0, SIDE, SIDE, GL_RGBA, GL_UNSIGNED_BYTE, pixels);
                done++;
        } while (now() < begin + seconds);
        for (unsigned i = 0; i < SIDE * SIDE; i++)
                drawn += pixels[i * 4] == 255;
        printf("draw drawn=%u of %u error=%x rate=%.0f pictures/s\n", drawn, SIDE * SIDE, glGetError(),
               done / (now() - begin));
        free(pixels);
}

static void memory(unsigned max)
{
        unsigned got = 0;
        GLenum error = GL_NO_ERROR;
        GLuint frame;
        glGenFramebuffers(1, &frame);
        glBindFramebuffer(GL_FRAMEBUFFER, frame);
        for (; got < max; got += 64) {
                GLuint texture;
                glGenTextures(1, &texture);
                glBindTexture(GL_TEXTURE_2D, texture);
                glTexStorage2D(GL_TEXTURE_2D, 1, GL_RGBA8, 4096, 4096);
                glFramebufferTexture2D(GL_FRAMEBUFFER, GL_COLOR_ATTACHMENT0, GL_TEXTURE_2D, texture, 0);
                glClearColor(.25, .5, .75, 1);
                glClear(GL_COLOR_BUFFER_BIT); /* what is only uploaded stays in the program's own memory */
                glFinish();
                error = glGetError();
                if (error != GL_NO_ERROR)
                        break;
        }
        printf("textures got_mib=%u error=%x\n", got, error);
}

static void info(void)
{
        static const struct {
                const char *name;
                GLenum number;
        } figures[] = { { "dedicated", 0x9047 }, { "total", 0x9048 }, { "free", 0x9049 } };
        for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
                GLint kib = -1;
                glGetIntegerv(figures[i].number, &kib);
                printf("memory %s=%d KiB error=%x\n", figures[i].name, kib, glGetError());
        }
}

static void cuda_check(CUresult result, const char *what)
{
        if (result == CUDA_SUCCESS)
                return;
        printf("cuda: %s: %d\n", what, result);
        exit(1);
}

static void with_cuda(void)
{
        enum { SIZE = 4 << 20 };
        CUresult (*registered)(CUgraphicsResource *, GLuint, unsigned) = NULL;
        CudaFunctions *cuda = NULL;
        CUcontext context;
        CUgraphicsResource resource;
        CUdeviceptr at;
        size_t size;
        GLuint buffer;
        void *library = dlopen("libcuda.so.1", RTLD_NOW);
        if (!library || cuda_load_functions(&cuda, NULL))
                exit(77);
        *(void **)&registered = dlsym(library, "cuGraphicsGLRegisterBuffer");
        cuda_check(cuda->cuInit(0), "cuInit");
        cuda_check(cuda->cuCtxCreate(&context, 0, 0), "cuCtxCreate");
        glGenBuffers(1, &buffer);
        glBindBuffer(GL_ARRAY_BUFFER, buffer);
        glBufferData(GL_ARRAY_BUFFER, SIZE, NULL, GL_DYNAMIC_COPY);
        glFinish();
        cuda_check(registered(&resource, buffer, 0), "cuGraphicsGLRegisterBuffer");
        cuda_check(cuda->cuGraphicsMapResources(1, &resource, 0), "cuGraphicsMapResources");
        cuda_check(cuda->cuGraphicsResourceGetMappedPointer(&at, &size, resource), "GetMappedPointer");
        cuda_check(cuda->cuMemsetD8Async(at, 0x5e, size, 0), "cuMemsetD8");
        cuda_check(cuda->cuGraphicsUnmapResources(1, &resource, 0), "cuGraphicsUnmapResources");
        unsigned char *seen = glMapBufferRange(GL_ARRAY_BUFFER, 0, SIZE, GL_MAP_READ_BIT);
        unsigned wrong = 0;
        for (unsigned i = 0; seen && i < SIZE; i++)
                wrong += seen[i] != 0x5e;
        printf("cuda size=%zu wrong=%u mapped=%d error=%x\n", size, wrong, seen != NULL, glGetError());
        cuda_check(cuda->cuGraphicsUnregisterResource(resource), "cuGraphicsUnregisterResource");
}

int main(int argc, char **argv)
{
        if (argc < 2)
                return 2;
        gles_open();
        if (!strcmp(argv[1], "draw"))
                draw(argc > 2 ? atof(argv[2]) : 0);
        else if (!strcmp(argv[1], "info"))
                info();
        else if (!strcmp(argv[1], "cuda"))
                with_cuda();
        else if (argc > 2 && !strcmp(argv[1], "memory"))
                memory((unsigned)atoi(argv[2]));
        else
                return 2;
        if (argc > 3)
                info();
        return 0;
}
