/* The program of TestRandomDlopen: each argument is one action.
 *
 *	FLAGS:FILE	dlopen, FLAGS of N now, L lazy, G global, D deepbind, O noload
 *	?SYMBOL		dlsym in what the program sees
 *	K?SYMBOL	dlsym in the handle of action K, counted from 0
 *	?SYMBOL@V	dlvsym
 *
 * For each a line tells the object that was found, or the error. */
#include "start.h"

struct info {
	const char *file;
	void *base;
	const char *symbol;
	void *address;
};
extern int dladdr(const void *, struct info *);

int main(int argc, char **argv)
{
	void *handles[64];
	setvbuf(stdout, 0, 1, 0); /* by lines */
	for (int i = 1; i < argc && i < 64; i++) {
		char *a = argv[i], *sym = strchr(a, '?');
		void *p;
		handles[i - 1] = 0;
		dlerror();
		if (!sym) {
			char *file = strchr(a, ':') + 1;
			int flags = 0;
			for (; *a != ':'; a++)
				flags |= *a == 'N' ? 2 : *a == 'L' ? 1 : *a == 'G' ? 0x100 : *a == 'D' ? 8 : *a == 'O' ? 4 : 0;
			handles[i - 1] = p = dlopen(file, flags);
			printf("%s\n", p ? "ok" : dlerror());
			continue;
		}
		void *handle = sym == a ? 0 : handles[atoi(a)];
		if (sym != a && !handle) {
			printf("no handle\n");
			continue;
		}
		char *version = strchr(++sym, '@');
#ifdef GLIBC
		if (version) {
			*version++ = 0;
			p = dlvsym(handle, sym, version);
		} else
#endif
			p = dlsym(handle, sym);
		struct info info;
		if (!p)
			printf("%s\n", dlerror());
		else
			printf("in %s\n", dladdr(p, &info) ? info.file : "?");
	}
	return 0;
}
