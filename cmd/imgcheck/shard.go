package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/policy"
	"github.com/imgcheck/imgcheck/pkg/report"
)

// shardOf returns the images of the shard that a text like 0/16 names, and the shard. Its images
// follow each other in the list, so that tags of one repository, which share layers, are read
// together. A shard may have no image. The same list gives the same shards everywhere.
func shardOf(images []policy.Image, text string) ([]policy.Image, *report.Shard, error) {
	first, second, ok := strings.Cut(text, "/")
	i, err := strconv.Atoi(first)
	n, err2 := strconv.Atoi(second)
	switch {
	case !ok || err != nil || err2 != nil:
		return nil, nil, fmt.Errorf("--shard %q: write it like 0/16, the first of 16 parts", text)
	case n < 1 || n > report.MaxShards:
		return nil, nil, fmt.Errorf("--shard %s: the images have 1 to %d parts", text, report.MaxShards)
	case i < 0 || i >= n:
		return nil, nil, fmt.Errorf("--shard %s: the parts are 0/%d to %d/%d", text, n, n-1, n)
	}
	var names []string
	for _, im := range images {
		names = append(names, im.Ref, im.Platform)
	}
	return images[i*len(images)/n : (i+1)*len(images)/n], report.NewShard(i, n, names), nil
}
