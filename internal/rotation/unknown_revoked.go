package rotation

import (
	"fmt"
	"slices"
	"strings"

	"github.com/requeststate/operator/api/v1alpha1"
)

// unknownRevoked words how many of the revoked ids were, as far as status tells, never in the ring: nothing was revoked by naming them. "" if none. Such ids are
// allowed, since history is bounded and does not come back with a backup of the spec, but a mistyped id must not pass for a revocation.
func unknownRevoked(revoked []v1alpha1.KeyID, s *v1alpha1.RequestStateKeyStatus) string {
	var unknown []string
	for _, id := range revoked {
		left := func(e v1alpha1.HistoryEntry) bool { return e.KeyID == string(id) }
		if Find(s.Keyring, string(id)) == nil && !slices.ContainsFunc(s.History, left) {
			unknown = append(unknown, string(id))
		}
	}
	if len(unknown) == 0 {
		return ""
	}
	const named = 3
	list := strings.Join(unknown[:min(len(unknown), named)], ", ")
	if more := len(unknown) - named; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	ids, check := "ids", "check them, they revoke no key that is in use"
	if len(unknown) == 1 {
		ids, check = "id", "check it, it revokes no key that is in use"
	}
	return fmt.Sprintf("; spec.revokedKeyIDs names %d %s that neither the ring nor its history knows (%s): %s", len(unknown), ids, list, check)
}
