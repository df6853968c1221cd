// Package imagetest turns text into container images, for tests and for the demo: ELF files that hold no more than a dynamic
// loader reads, tar layers, an image around them, and a registry in this process that serves it.
//
// It knows formats, not loaders and rules. From a text that describes a broken image it makes a broken image.
package imagetest
