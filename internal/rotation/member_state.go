package rotation

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/requeststate/operator/api/v1alpha1"
)

// Clone returns a member in the same state, which goes its own way from there. The views are shared: they never change.
func (m *Member) Clone() *Member {
	c := *m
	c.revoked, c.dropped, c.toDrop = maps.Clone(m.revoked), maps.Clone(m.dropped), slices.Clone(m.toDrop)
	return &c
}

// AppendState appends an encoding of all that decides what the member does from here on: two members with equal encodings behave alike for ever. A search
// of the protocol tells states apart by it.
func (m *Member) AppendState(b []byte) []byte {
	flags := byte(0)
	for i, set := range []bool{m.joined, m.rewound, m.needGet, m.needWrite, m.err != nil} {
		if set {
			flags |= 1 << i
		}
	}
	b = append(b, flags, byte(m.withdrawn))
	if m.err != nil {
		b = appendText(b, string(m.err.Reason))
		b = appendText(b, m.err.Message)
	}
	for _, v := range []*View{m.held, m.reported, m.pending} {
		b = v.appendState(b)
	}
	for _, set := range []map[string]bool{m.revoked, m.dropped} {
		b = binary.AppendUvarint(b, uint64(len(set)))
		for _, id := range slices.Sorted(maps.Keys(set)) {
			b = appendText(b, id)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(m.toDrop)))
	for _, id := range m.toDrop {
		b = appendText(b, id)
	}
	return b
}

// appendState appends what a member obeys of a view.
func (v *View) appendState(b []byte) []byte {
	if v == nil {
		return append(b, 0)
	}
	b = appendText(append(b, 1), v.UID)
	b = binary.AppendUvarint(b, uint64(len(v.Revoked)))
	for _, id := range v.Revoked {
		b = appendText(b, id)
	}
	if v.Ring == nil {
		return append(b, 0)
	}
	r := v.Ring
	b = appendText(append(b, 1), r.Epoch)
	b = appendText(b, r.MintingKeyID)
	b = binary.AppendVarint(b, int64(r.Format))
	b = binary.AppendVarint(b, r.Generation)
	b = appendSettings(b, &r.Settings)
	b = binary.AppendUvarint(b, uint64(len(r.Keys)))
	for i := range r.Keys {
		b = appendText(b, r.Keys[i].ID)
		b = binary.AppendUvarint(b, uint64(len(r.Keys[i].WrappedKey)))
		b = append(b, r.Keys[i].WrappedKey...)
		if r.Keys[i].MintingSince != nil { // CheckRing looks at it
			b = append(b, 1)
		} else {
			b = append(b, 0)
		}
	}
	return b
}

// appendSettings appends the settings but for the principal's details, which no rule reads: a view that differs in them alone has another generation.
func appendSettings(b []byte, s *v1alpha1.KeyringSettings) []byte {
	b = appendText(b, s.Audience)
	b = binary.AppendVarint(b, int64(s.TTL.Duration))
	b = binary.AppendVarint(b, int64(s.ClockSkew.Duration))
	return appendText(b, string(s.Principal.Source))
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}
