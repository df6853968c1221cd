package pyimport

import (
	"slices"
	"strings"
)

// codecsOf are the encodings of the extension modules for East Asian texts
// (the `CODEC_LIST` of Modules/cjkcodecs/_codecs_*.c, the same from 3.0 on).
var codecsOf = map[string]string{
	"_codecs_cn":      "gb2312 gbk gb18030 hz",
	"_codecs_hk":      "big5hkscs",
	"_codecs_iso2022": "iso2022_kr iso2022_jp iso2022_jp_1 iso2022_jp_2 iso2022_jp_2004 iso2022_jp_3 iso2022_jp_ext",
	"_codecs_jp":      "shift_jis cp932 euc_jp shift_jis_2004 euc_jis_2004 euc_jisx0213 shift_jisx0213",
	"_codecs_kr":      "euc_kr cp949 johab",
	"_codecs_tw":      "big5 cp950",
}

// encodingAliases are some of the pairs of encodings.aliases.aliases, an alias before its
// encoding: one of each module above (Lib/encodings/aliases.py).
const encodingAliases = "chinese gb2312 big5_hkscs big5hkscs csiso2022jp iso2022_jp sjis shift_jis euckr euc_kr big5_tw big5"

func init() {
	for module, list := range codecsOf {
		encodings := strings.Fields(list)
		functions(module, map[string]func(*Run, *args) value{"getcodec": func(r *Run, a *args) value {
			name, known := a.text(0, "")
			switch {
			case !known:
				r.guess("LookupError", "no such codec is supported.")
			case !slices.Contains(encodings, name):
				r.raise("LookupError", "no such codec is supported.")
			default: // `getmultibytecodec` of Modules/cjkcodecs/cjkcodecs.h
				r.importModule("_multibytecodec")
			}
			return unknownf("a codec")
		}})
	}
	addModel("encodings.aliases", "aliases", func(r *Run) value {
		d := r.newDict()
		d.open = true
		words := strings.Fields(encodingAliases)
		for i := 0; i < len(words); i += 2 {
			r.setKey(d, words[i], words[i+1])
		}
		return d
	})
}
