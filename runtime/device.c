/* device: opens backends. The CPU's is part of prun; others are modules, so that the same prun runs where there is no device, driver or
 * toolkit. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ir/file.h"
#include "runtime/abi.h"

bool device_open(Device *device, const Backend *backend, const DeviceOptions *options, Error *error) {
    *device = (Device){.backend = backend};
    return backend->open(&device->context, options, error);
}

void device_close(Device *device) {
    if (device->backend && device->context) device->backend->close(device->context);
    *device = (Device){0};
}

/* ---------------------------------------------------------------- modules */

#define MODULE_FILE "prun_cuda.so"

/* Finds the module in the first place that has it: those relative to prun as it was built, then as it was installed. */
static bool find_module(char *path, size_t n) {
    static const char *const places[] = {"", "cuda/", "../" PRUN_MODULE_FOLDER "/", "../lib/prun/"};
    char folder[3072];
    program_folder(folder, sizeof folder);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(path, n, "%s%s" MODULE_FILE, folder, places[i]);
        if (access(path, R_OK) == 0) return true;
    }
    return false;
}

/* PRUN_CUDA_MODULE: where the user says that the module is; it need not be there. */
static const char *given_module(void) {
    const char *given = getenv("PRUN_CUDA_MODULE");
    return given && *given ? given : NULL;
}

/* The module's file: where the user says, or where there is one. */
static bool module_file(char *path, size_t n) {
    const char *given = given_module();
    if (!given) return find_module(path, n);
    snprintf(path, n, "%s", given);
    return true;
}

/* Opening the module opens cuBLASLt, which has hundreds of megabytes: to be avoided where there is no driver. */
static bool has_driver(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (driver) dlclose(driver);
    return driver != NULL;
}

bool device_is_expected(void) {
    char path[4096];
    return given_module() || (find_module(path, sizeof path) && has_driver());
}

const DeviceModule *device_module(Error *error) {
    char path[4096];
    if (!module_file(path, sizeof path)) {
        error_set(error, EXIT_ENVIRONMENT, "there is no " MODULE_FILE " beside prun: it was built without CUDA");
        return NULL;
    }
    if (!given_module() && !has_driver()) {
        error_set(error, EXIT_ENVIRONMENT, "there is no CUDA driver (libcuda.so.1); in a container, was it started with its GPUs?");
        return NULL;
    }
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* never closed: each call gets the same one */
    if (!handle) {
        error_set(error, EXIT_ENVIRONMENT, "cannot open %s", dlerror());
        return NULL;
    }
    const DeviceModule *module = dlsym(handle, "prun_device_module");
    if (!module)
        error_set(error, EXIT_ENVIRONMENT, "%s is no module of prun's", path);
    else if (module->format != DEVICE_MODULE || module->abi() != device_abi()) {
        error_set(error, EXIT_ENVIRONMENT,
                  "%s is of another build than prun, whose operators or structures are others: build both from the same sources%s", path,
                  given_module() ? ", or have PRUN_CUDA_MODULE name prun's" : "");
        module = NULL;
    }
    return module;
}
