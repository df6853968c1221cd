//go:build ignore

// Command nodes is run by the name of this file, as test/real/truth is.
package main

import "github.com/imgcheck/imgcheck/test/nodes"

func main() { nodes.Main() }
