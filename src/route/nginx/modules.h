/* The only symbols of the module that are seen outside. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>

#define PUBLIC __attribute__((visibility("default")))

extern ngx_module_t ngx_http_sublet_module; /* module.h wants more of nginx than its user has */

extern PUBLIC ngx_module_t *ngx_modules[];
extern PUBLIC char *ngx_module_names[];
extern PUBLIC char *ngx_module_order[];
