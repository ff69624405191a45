package principal

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestClaimsThatAreNotExactlyRightAreRefused(t *testing.T) {
	s := static(t, jwk(edKey(), member{"kid": "k"}))
	raw := func(text string) json.RawMessage { return json.RawMessage(text) }
	good := payload(nil)
	twice := func(member string) string { return strings.TrimSuffix(good, "}") + "," + member + "}" }
	for name, c := range map[string]struct {
		payload string
		want    error // nil: accepted
	}{
		"iss absent":              {payload(member{"iss": nil}), errIssuer},
		"iss another":             {payload(member{"iss": "https://issuer.example/tenant2"}), errIssuer},
		"iss with a slash":        {payload(member{"iss": testIssuer + "/"}), errIssuer},
		"iss in another case":     {payload(member{"iss": strings.ToUpper(testIssuer)}), errIssuer},
		"iss an array":            {payload(member{"iss": []string{testIssuer}}), errIssuer},
		"iss null":                {payload(member{"iss": raw("null")}), errIssuer},
		"Iss for iss":             {payload(member{"iss": nil, "Iss": testIssuer}), errIssuer},
		"iss escaped":             {strings.Replace(good, `"iss"`, `"i\u0073s"`, 1), nil},
		"sub absent":              {payload(member{"sub": nil}), errSubject},
		"sub empty":               {payload(member{"sub": ""}), errSubject},
		"sub a number":            {payload(member{"sub": 7}), errSubject},
		"sub null":                {payload(member{"sub": raw("null")}), errSubject},
		"sub an object":           {payload(member{"sub": member{"a": "b"}}), errSubject},
		"aud absent":              {payload(member{"aud": nil}), errAudience},
		"aud another":             {payload(member{"aud": "mcp2"}), errAudience},
		"aud empty":               {payload(member{"aud": ""}), errAudience},
		"aud a part":              {payload(member{"aud": "mc"}), errAudience},
		"aud the second":          {payload(member{"aud": "other \"é"}), nil},
		"aud an array with ours":  {payload(member{"aud": []string{"x", "mcp"}}), nil},
		"aud an array without":    {payload(member{"aud": []string{"x", "y"}}), errAudience},
		"aud an empty array":      {payload(member{"aud": []string{}}), errAudience},
		"aud array with a number": {payload(member{"aud": []any{"mcp", 1}}), errAudience},
		"aud nested":              {payload(member{"aud": []any{[]string{"mcp"}}}), errAudience},
		"aud null":                {payload(member{"aud": raw("null")}), errAudience},
		"aud an object":           {payload(member{"aud": member{"mcp": "mcp"}}), errAudience},
		"aud split by space":      {payload(member{"aud": "x mcp"}), errAudience},
		"exp absent":              {payload(member{"exp": nil}), errTimes},
		"exp null":                {payload(member{"exp": raw("null")}), errTimes},
		"exp a string":            {payload(member{"exp": "1800000060"}), errTimes},
		"exp true":                {payload(member{"exp": true}), errTimes},
		"exp 1e400":               {payload(member{"exp": raw("1e400")}), errTimes},
		"exp 1e999999999999":      {payload(member{"exp": raw("1e999999999999")}), errTimes},
		"exp beyond int64":        {payload(member{"exp": raw("1e99999999999999999999")}), errClaims},
		"exp after the year 9999": {payload(member{"exp": raw("253402300800")}), errTimes},
		"exp in the year 9999":    {payload(member{"exp": raw("253402300799")}), nil},
		"exp negative":            {payload(member{"exp": -1}), errTimes},
		"exp NaN":                 {strings.Replace(good, "1800000060", "NaN", 1), errClaims},
		"exp hexadecimal":         {strings.Replace(good, "1800000060", "0x6b49d23c", 1), errClaims},
		"exp with a fraction":     {payload(member{"exp": raw("1.8000000605e9")}), nil},
		"exp at the skew's edge":  {payload(member{"exp": noon - 60}), errExpired},
		"exp just inside":         {payload(member{"exp": noon - 59}), nil},
		"exp half a second in":    {payload(member{"exp": raw("1799999940.5")}), nil},
		"nbf at the skew's edge":  {payload(member{"nbf": noon + 60}), nil},
		"nbf just outside":        {payload(member{"nbf": noon + 61}), errNotYet},
		"nbf a fraction outside":  {payload(member{"nbf": raw("1800000060.5")}), errNotYet},
		"nbf zero":                {payload(member{"nbf": 0}), nil},
		"nbf a string":            {payload(member{"nbf": "0"}), errTimes},
		"nbf null":                {payload(member{"nbf": raw("null")}), errTimes},
		"nbf negative":            {payload(member{"nbf": -1}), errTimes},
		"iat of any kind":         {payload(member{"iat": "tomorrow"}), nil},
		"sub twice":               {twice(`"sub":"admin"`), errClaims},
		"sub twice, escaped":      {twice(`"\u0073ub":"admin"`), errClaims},
		"sub twice alike":         {twice(`"sub":"` + canary + `"`), errClaims},
		"iss twice":               {twice(`"iss":"` + testIssuer + `"`), errClaims},
		"exp twice":               {twice(`"exp":1`), errClaims},
		"client_id twice":         {twice(`"client_id":"a","client_id":"b"`), errClaims},
		"twice within a claim":    {payload(member{"x": raw(`{"a":1,"a":2}`)}), errClaims},
		"Sub beside sub":          {payload(member{"Sub": "admin"}), nil},
		"an array":                {`["` + testIssuer + `"]`, errClaims},
		"null":                    {`null`, errIssuer},
		"two values":              {good + good, errClaims},
		"text behind":             {good + "x", errClaims},
		"a BOM before":            {"\ufeff" + good, errClaims},
		"white space around":      {" \n" + good + "\r\t", nil},
		"not UTF-8":               {strings.Replace(good, canary, canary+"\xff", 1), errClaims},
		"a trailing comma":        {twice(""), errClaims},
		"deep":                    {payload(member{"x": raw(strings.Repeat("[", 600) + strings.Repeat("]", 600))}), errClaims},
	} {
		t.Run(name, func(t *testing.T) {
			authorization := "Bearer " + sign(t, "EdDSA", edKey(), header("EdDSA", "k"), c.payload)
			if c.want == nil {
				accepted(t, s, authorization)
				return
			}
			refused(t, s, c.want, authorization)
			if !errors.Is(c.want, ErrInvalidToken) {
				t.Error("not an invalid token")
			}
		})
	}
}

// encoding/json makes U+FFFD of a lone surrogate, so that one name could pass for another.
func TestALoneSurrogateInANameIsNoOtherName(t *testing.T) {
	o, err := readObject([]byte(`{"\ud800":1,"\ufffd":2,"\ud83d\ude00":3}`))
	if err != nil {
		t.Fatal(err)
	}
	if len(o) != 3 || string(o.get("\ufffd")) != "2" || string(o.get("😀")) != "3" || string(o.get("\xed\xa0\x80")) != "1" {
		t.Errorf("%s", o)
	}
}
