/* What nginx looks for in a dynamic module. The only symbols that are seen outside. */
#include <ngx_config.h>
#include <ngx_core.h>

#define PUBLIC __attribute__((visibility("default")))

extern ngx_module_t ngx_http_sublet_module; /* module.h wants more of nginx than this file has */

extern PUBLIC ngx_module_t *ngx_modules[];
extern PUBLIC char *ngx_module_names[];
extern PUBLIC char *ngx_module_order[];

ngx_module_t *ngx_modules[] = { &ngx_http_sublet_module, NULL };
char *ngx_module_names[] = { (char *)"ngx_http_sublet_module", NULL };
/* The body filter sits before the copy filter. */
char *ngx_module_order[] = { (char *)"ngx_http_sublet_module", (char *)"ngx_http_copy_filter_module", NULL };
