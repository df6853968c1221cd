package report

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// MaxShards bounds the shards of a list of images.
const MaxShards = 1000

// Shard is a part of a list of images that is scanned alone.
type Shard struct {
	Index int `json:"index"` // from 0
	Of    int `json:"of"`
	// List is the digest of the whole list, by which the shards of one list are known.
	List string `json:"list"`
}

// NewShard returns shard i of n of a list, which names identify.
func NewShard(i, n int, names []string) *Shard {
	sum := sha256.New()
	for _, name := range names {
		fmt.Fprintf(sum, "%s\n", name)
	}
	return &Shard{Index: i, Of: n, List: "sha256:" + hex.EncodeToString(sum.Sum(nil))}
}

func (s *Shard) check() error {
	if s.Of < 1 || s.Of > MaxShards || s.Index < 0 || s.Index >= s.Of || s.List == "" {
		return fmt.Errorf("there is no shard %d of %d", s.Index, s.Of)
	}
	return nil
}

// Merge returns one set of the images of several sets: each image once, by its reference and
// platform, sorted by them. The order of the sets and sets that are there twice change nothing.
//
// If two sets have an image, a report has precedence over the reason why there is none. Of two
// different reports, as of a tag that has moved between two runs, Merge takes one by a fixed
// order, and differ names the image.
//
// It is an error if shards are of different lists, or if a shard of the list is missing.
func Merge(sets []*Set) (merged *Set, differ []string, err error) {
	if len(sets) == 0 {
		return nil, nil, errors.New("there is no report to merge")
	}
	if err := complete(sets); err != nil {
		return nil, nil, err
	}
	version := sets[0].Imgcheck
	var all []Scanned
	for _, s := range sets {
		all = append(all, s.Images...)
		if s.Imgcheck != version {
			version = ""
		}
	}
	slices.SortStableFunc(all, func(a, b Scanned) int {
		return cmp.Or(cmp.Compare(a.Ref, b.Ref), cmp.Compare(a.Platform, b.Platform))
	})
	images := []Scanned{}
	for _, im := range all {
		last := len(images) - 1
		if last < 0 || images[last].Ref != im.Ref || images[last].Platform != im.Platform {
			images = append(images, im)
			continue
		}
		if images[last].Report != nil && im.Report != nil {
			first, err := asJSON(&images[last])
			if err != nil {
				return nil, nil, err
			}
			second, err := asJSON(&im)
			if err != nil {
				return nil, nil, err
			}
			if !bytes.Equal(first, second) && !slices.Contains(differ, im.Ref) {
				differ = append(differ, im.Ref)
			}
			if bytes.Compare(first, second) <= 0 {
				continue
			}
		}
		if im.Report != nil || images[last].Report == nil && im.Error < images[last].Error {
			images[last] = im
		}
	}
	return NewSet(version, images), differ, nil
}

func asJSON(im *Scanned) ([]byte, error) {
	var b bytes.Buffer
	err := SetJSON(&b, NewSet("", []Scanned{*im}), Options{})
	return b.Bytes(), err
}

// complete checks that the shards among sets are those of one list, and that none is missing.
func complete(sets []*Set) error {
	var first *Shard
	var there []bool
	for _, s := range sets {
		switch {
		case s.Shard == nil:
			continue
		case first == nil:
			first, there = s.Shard, make([]bool, s.Shard.Of)
		case s.Shard.Of != first.Of || s.Shard.List != first.List:
			return errors.New("the reports are of shards of different lists: merge those of one list")
		}
		there[s.Shard.Index] = true
	}
	var missing []string
	for i, ok := range there {
		if !ok {
			missing = append(missing, strconv.Itoa(i))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("the report of %d of %d shards is missing: run --shard I/%d again for I = %s", len(missing), first.Of, first.Of, strings.Join(missing, ", "))
}
