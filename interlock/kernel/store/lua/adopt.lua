--@use entry token effect_note lease quarantine
-- Adopts a lease: a process takes it over from its holder, with a new token, and no new attempt is
-- counted. The former holder is fenced from then on. A repeat gets the same token.
-- KEYS     record, log, effects, waits, timers, counters
-- ARGV     id, suffix, token of the former holder, nonce, holder, lease in ms
-- Returns  {status, token, attempt, {record}, {counters}}; status: adopted | lost
local record = KEYS[1]
local log = KEYS[2]
local effects = KEYS[3]
local waits = KEYS[4]
local timers = KEYS[5]
local counters = KEYS[6]
local id = ARGV[1]
local suffix = ARGV[2]
local former_token = ARGV[3]
local nonce = ARGV[4]
local holder = ARGV[5]
local lease_ms = tonumber(ARGV[6])

local lost = {'lost', '', '0', {}, {}}
local entry = read_entry(record, suffix)
if not entry or entry.state == 'owed' or entry.state == 'draining' then
  return lost
end
local repeated = string.match(entry.token, '^%d+%-(.*)$') == nonce
if not repeated then
  if entry.token ~= former_token then
    return lost
  end
  local version = renew_token(record, entry, nonce)
  local fields = '"effect":"%s","token":"%s","holder":"%s"'
  write_effect_note(log, version, 'adopt', fields, suffix, entry.token, holder)
end

local was_quarantined = entry.state == 'quarantined'
lease(record, effects, id, suffix, entry, holder, lease_ms)
if was_quarantined then
  stop_asking(record, waits, timers, id)
end
local fields = redis.call('HGETALL', record)
return {'adopted', entry.token, tostring(entry.attempts), fields, redis.call('HGETALL', counters)}
