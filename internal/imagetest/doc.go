// Package imagetest turns text into container images, for tests and for the demo: ELF files with nothing in them but what a
// dynamic loader reads, tar layers, an image around them, and a registry in this process to serve it.
//
// It knows formats only. What a loader makes of such a file, what a rule says of such an image, and whether either is
// sensible, it does not know: a text may describe a broken image, and then it makes a broken image.
package imagetest
