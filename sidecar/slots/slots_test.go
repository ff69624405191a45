package slots

import "testing"

func TestAPlaceIsTakenOnceUntilItIsGivenBack(t *testing.T) {
	s := New(2)
	for i, want := range []bool{true, true, false} {
		if got := s.Take(); got != want {
			t.Errorf("take %d: %t", i, got)
		}
	}
	s.Release()
	for i, want := range []bool{true, false} {
		if got := s.Take(); got != want {
			t.Errorf("after one was given back, take %d: %t", i, got)
		}
	}
}
