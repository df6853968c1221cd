/* The program of TestRandomDlopen: it opens its arguments, tells what dlopen said
 * and then each object with the names that glibc has for it. */
#include "start.h"

struct lname { const char *name; struct lname *next; };
struct lmap { unsigned long addr; const char *name; void *ld; struct lmap *next, *prev; void *real; long ns; struct lname *libname; };
int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		void *h = dlopen(argv[i], 2);
		printf("%s: %s\n", argv[i], h ? "ok" : dlerror());
	}
	for (struct lmap *m = dlopen(0, 1); m; m = m->next) {
		printf("object %s", m->name);
		for (struct lname *n = m->libname; n; n = n->next)
			printf(" %s", n->name);
		printf("\n");
	}
	return 0;
}
