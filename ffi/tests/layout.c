/* Sizes and places of all structs and their members, as the header has them: compared with layout.txt. */
#include <stddef.h>
#include <stdio.h>

#include "ringleader.h"

#define SIZE(type) printf("%s: %zu bytes\n", #type, sizeof(struct type));
#define FIELD(type, field) printf("    %s: %zu at %zu\n", #field, sizeof(((struct type *)0)->field), offsetof(struct type, field));

int main(void) {
#include "structs.inc"
    return 0;
}
