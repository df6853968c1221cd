//go:build ignore

// Command page is run by the name of this file, as test/real/truth is.
package main

import "github.com/imgcheck/imgcheck/test/page"

func main() { page.Main() }
