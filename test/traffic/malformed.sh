#!/usr/bin/env bash
# Sends a sidecar's proxy 60 malformed requests by curl: malformed.sh URL PLAIN_STATE. Each must be answered within 10 seconds, never with an error of the proxy's
# own that has no JSON-RPC body, and never with the state that the server behind it hands out in plain. The last request is in order and must still be answered.
set -uo pipefail
url=$1 plain=$2
failed=0 sent=0
body=$(mktemp) header=$(mktemp) input=$(mktemp)
trap 'rm -f "$body" "$header" "$input"' EXIT

# check NAME EXPECTED-STATUSES CURL-ARGUMENTS...: statuses are a pattern of bash; 000 is a connection closed without an answer.
check() {
  local name=$1 expected=$2 status code=0
  shift 2
  sent=$((sent + 1))
  : >"$body"
  : >"$header"
  status=$(curl --silent --show-error --max-time 10 --output "$body" --dump-header "$header" --write-out '%{http_code}' "$@" 2>/dev/null) || code=$?
  if [ "$code" = 28 ]; then
    echo "FAILED: $name: no answer within 10 s"
    failed=1
  elif ! [[ $status =~ ^($expected)$ ]]; then
    echo "FAILED: $name: status $status, want $expected: $(head -c 200 "$body" | tr -d '\0')"
    failed=1
  elif [[ $status =~ ^[45] ]] && ! grep -q '"jsonrpc":"2.0"' "$body"; then
    echo "FAILED: $name: status $status without a JSON-RPC body: $(head -c 200 "$body" | tr -d '\0')"
    failed=1
  fi
  if grep -q -F "$plain" "$body" "$header"; then
    echo "FAILED: $name: the plain state came out"
    failed=1
  fi
}

json() { check "$1" "$2" -H 'Content-Type: application/json' --data-binary "$3" "$url/mcp"; }
call() { json "$1" "$2" "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":$3}"; }
typed() { check "$1" "$2" -H "Content-Type: $3" --data-binary "$4" "$url/mcp"; }
bytes() { printf %b "$2" >"$input"; check "$1" "$3" -H 'Content-Type: application/json' --data-binary "@$input" "$url/mcp"; }
repeat() { head -c "$2" </dev/zero | tr '\0' "$1"; }

# No JSON.
json 'empty object cut off' 400 '{'
json 'two values' 400 '{}{}'
json 'trailing comma' 400 '{"id":1,}'
json 'comment' 400 '/* */{"id":1}'
json 'single quotes' 400 "{'id':1}"
json 'NaN' 400 '{"id":NaN}'
json 'leading zero' 400 '{"id":01}'
json 'white space only' 400 '   '
json 'bare word' 400 'ping'
json 'control character' 400 "$(printf '{"id":"\001"}')"
json 'bad escape' 400 '{"id":"\x41"}'
json 'short escape' 400 '{"id":"\u00"}'
bytes 'byte order mark' '\xef\xbb\xbf{"id":1}' 400
bytes 'NUL' '{"id":1}\x00' 400
bytes 'UTF-16' '\xff\xfe{\x00}\x00' 400
bytes 'invalid UTF-8' '{"id":"\xff"}' 400
bytes 'overlong UTF-8' '{"id":"\xc0\xaf"}' 400
bytes 'UTF-8 of a surrogate' '{"id":"\xed\xa0\x80"}' 400
repeat '[' 20000 >"$input"; check 'too deep' 400 -H 'Content-Type: application/json' --data-binary "@$input" "$url/mcp"
repeat ' ' 5000000 >"$input"; check 'too large' 413 -H 'Content-Type: application/json' --data-binary "@$input" "$url/mcp"

# Messages that two parsers read differently.
json 'method twice' 400 '{"id":1,"method":"ping","method":"tools/call"}'
json 'Method' 400 '{"id":1,"Method":"tools/call"}'
json 'method escaped, twice' 400 '{"id":1,"method":"tools/call","m\u0065thod":"ping"}'
json 'params an array' 400 '{"id":1,"method":"tools/call","params":["plain"]}'
json 'params a string' 400 '{"id":1,"method":"tools/call","params":"plain"}'
json 'PARAMS' 400 '{"id":1,"method":"tools/call","params":{},"PARAMS":{"requestState":"x"}}'
json 'batch in a batch' 400 '[[{"id":1,"method":"tools/call"}]]'
json 'state in a batch' 400 '[{"id":1,"method":"tools/call","params":{"name":"t","requestState":"x"}}]'
call 'RequestState' 400 '{"name":"t","RequestState":"x"}'
call 'long s' 400 '{"name":"t","reque\u017ftState":"x"}'
call 'state twice' 400 '{"name":"t","requestState":null,"requestState":"x"}'
call 'state a number' 400 '{"name":"t","requestState":5}'
call 'state an object' 400 '{"name":"t","requestState":{"a":1}}'
call 'state an array' 400 '{"name":"t","requestState":["x"]}'
call 'name twice' 400 '{"name":"t","name":"u"}'
call 'name a number' 400 '{"name":5}'
call 'arguments twice' 400 '{"name":"t","arguments":{},"arguments":{"a":1}}'
call 'duplicate argument' 400 '{"name":"t","arguments":{"a":1,"a":2}}'
call 'huge exponent' 400 '{"name":"t","arguments":{"a":1e99999999999999999999}}'

# States that do not open.
call 'forged' 200 '{"name":"t","requestState":"forged"}'
call 'empty' 200 '{"name":"t","requestState":""}'
call 'prefix only' 200 '{"name":"t","requestState":"rsk1."}'
call 'all A' 200 "{\"name\":\"t\",\"requestState\":\"rsk1.$(repeat A 100)\"}"
call 'lone surrogate' 200 '{"name":"t","requestState":"\ud800"}'
call 'long' 200 "{\"name\":\"t\",\"requestState\":\"rsk1.$(repeat A 120000)\"}"

# Types, encodings, methods, headers.
typed 'text' 415 text/plain '{"id":1}'
typed 'UTF-16 by charset' 415 'application/json; charset=utf-16' '{"id":1}'
typed 'XML' 415 application/xml '<a/>'
typed 'form that is JSON' 415 application/x-www-form-urlencoded '{"id":1,"method":"tools/call","params":{"requestState":"x"}}'
typed 'multipart that is JSON' 415 'multipart/form-data; boundary=x' '{"id":1}'
check 'two types' 415 -H 'Content-Type: application/json' -H 'Content-Type: text/plain' --data '{}' "$url/mcp"
check 'gzip' 415 -H 'Content-Type: application/json' -H 'Content-Encoding: gzip' --data '{}' "$url/mcp"
check 'GET with a body' 400 -X GET -H 'Content-Type: application/json' --data '{' "$url/mcp"
check 'CONNECT' '501|400' -X CONNECT "$url/mcp"
check 'upgrade' 501 -H 'Connection: Upgrade' -H 'Upgrade: h2c' "$url/mcp"
check 'unknown transfer coding' '501|400' -H 'Transfer-Encoding: gzip' --data '{}' "$url/mcp"
check 'header too large' 431 -H "X-Long: $(repeat x 70000)" "$url/mcp"
check 'expectation' 417 -H 'Expect: miracles' --data '{}' "$url/mcp"
check 'encoded path' 400 -H 'Content-Type: application/json' --data '{' --path-as-is "$url/a/../%2e%2e/mcp;x//y"
check 'two lengths' 400 -H 'Content-Length: 3' -H 'Content-Length: 4' --data '{}' "$url/mcp"

malformed=$sent
json 'in order' 200 '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}'
if ! grep -q '"requestState":"rsk1\.' "$body"; then
  echo "FAILED: the request in order got no sealed state: $(head -c 200 "$body")"
  failed=1
fi
echo "malformed: $malformed requests, failed=$failed"
exit $failed
