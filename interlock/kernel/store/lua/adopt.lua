--@use entry token effect_note lease quarantine
-- Adopts a lease: a process takes it over from its holder, with a new token, and no new attempt is
-- counted. The former holder is fenced from then on. A repeat gets the same token.
-- KEYS     record, log, effects, waits, timers, counters
-- ARGV     id, suffix, former_token, nonce, holder, lease_ms
-- Returns  {status, token, attempt, {record}, {counters}}; status: adopted | lost
local lost = {'lost', '', '0', {}, {}}
local entry = read_entry(record, plan.suffix)
if not entry or entry.state == 'draining' then
  return lost
end
local repeated = string.match(entry.token, '^%d+%-(.*)$') == plan.nonce
if not repeated then
  if entry.token ~= plan.former_token then
    return lost
  end
  local version = renew_token(record, entry, plan.nonce)
  local fields = '"effect":"%s","token":"%s","holder":"%s"'
  write_effect_note(log, version, 'adopt', fields, plan.suffix, entry.token, plan.holder)
end

local was_quarantined = entry.state == 'quarantined'
lease(record, effects, plan.id, plan.suffix, entry, plan.holder, plan.lease_ms)
if was_quarantined then
  stop_asking(record, waits, timers, plan.id)
end
local fields = redis.call('HGETALL', record)
return {'adopted', entry.token, tostring(entry.attempts), fields, redis.call('HGETALL', counters)}
