// Command sh stands for the shell of a base image: for each "mark N" in its arguments it
// makes the file /mark-N with the text N, and nothing else.
package main

import (
	"os"
	"strings"
)

func main() {
	words := strings.Fields(strings.Join(os.Args[1:], " "))
	if script, err := os.ReadFile(os.Args[len(os.Args)-1]); err == nil { // of a here-document
		words = strings.Fields(string(script))
	}
	for i, w := range words {
		if w == "mark" && i+1 < len(words) {
			if err := os.WriteFile("/mark-"+words[i+1], []byte(words[i+1]), 0o644); err != nil {
				panic(err)
			}
		}
	}
}
