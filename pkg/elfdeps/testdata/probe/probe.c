/* The program of TestRandomDlopen: each argument is one action.
 *
 *	FLAGS:FILE	dlopen, FLAGS of N now, L lazy, G global, D deepbind, O noload
 *	?SYMBOL		dlsym in what the program sees
 *	K?SYMBOL	dlsym in the handle of action K, counted from 0
 *	?SYMBOL@V	dlvsym
 *
 * For each a line tells the object that was found, or the error. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
	void *handles[64] = {0};
	setvbuf(stdout, 0, _IOLBF, 0);
	for (int i = 1; i < argc && i < 64; i++) {
		char *a = argv[i], *sym = strchr(a, '?');
		void *p;
		dlerror();
		if (!sym) {
			char *file = strchr(a, ':') + 1;
			int flags = 0;
			for (; *a != ':'; a++)
				flags |= *a == 'N' ? RTLD_NOW : *a == 'L' ? RTLD_LAZY : *a == 'G' ? RTLD_GLOBAL : *a == 'D' ? 8 : *a == 'O' ? 4 : 0;
			handles[i - 1] = p = dlopen(file, flags);
			printf("%s\n", p ? "ok" : dlerror());
			continue;
		}
		void *handle = sym == a ? RTLD_DEFAULT : handles[atoi(a)];
		if (sym != a && !handle) {
			printf("no handle\n");
			continue;
		}
		char *version = strchr(++sym, '@');
#ifdef __GLIBC__
		if (version) {
			*version++ = 0;
			p = dlvsym(handle, sym, version);
		} else
#endif
			p = dlsym(handle, sym);
		Dl_info info = {0};
		if (!p)
			printf("%s\n", dlerror());
		else
			printf("in %s\n", dladdr(p, &info) ? info.dli_fname : "?");
	}
	return 0;
}
