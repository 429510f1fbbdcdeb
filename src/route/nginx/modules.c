/* What nginx looks for in a dynamic module. */
#include "route/nginx/modules.h"

ngx_module_t *ngx_modules[] = { &ngx_http_sublet_module, NULL };
char *ngx_module_names[] = { (char *)"ngx_http_sublet_module", NULL };
/* The body filter sits before the copy filter. */
char *ngx_module_order[] = { (char *)"ngx_http_sublet_module", (char *)"ngx_http_copy_filter_module", NULL };
