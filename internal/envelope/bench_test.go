package envelope

import (
	"fmt"
	"testing"
)

func BenchmarkSeal(b *testing.B) {
	for _, n := range []int{256, 65536} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r, state := testRing(b), make([]byte, n)
			b.ReportAllocs()
			b.SetBytes(int64(n))
			for b.Loop() {
				mustSeal(b, r, testNow, testBinding, state)
			}
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	for _, n := range []int{256, 65536} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := testRing(b)
			token := mustSeal(b, r, testNow, testBinding, make([]byte, n)).Token
			b.ReportAllocs()
			b.SetBytes(int64(n))
			for b.Loop() {
				if _, err := r.Open(testNow, testBinding, token); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
