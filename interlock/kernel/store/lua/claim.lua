--@use clock entry exclusive budget grant lease quarantine slot_wait metrics
-- Claims an effect for one holder: gives it a new token and a lease, and returns the record. A
-- repeat with the nonce of the current token renews that lease.
-- KEYS     record, log, effects, waits, timers, metrics, saved, chain...
-- ARGV     id, suffix, nonce, holder, lease_ms, schema, name, slot
-- Returns  {status, token, attempt, {record}, {counters}, outcome that is kept or '', not '' if an
--          attempt has hung}; status: granted, or with a detail in the place of the token: gone |
--          other | quarantined | paused | held | carried | exhausted | early | busy | newer | slot
-- `carried`: it has begun once and may not start again. `slot`: it needs one, with the detail: name
-- of the slots, number to show, priority, since; while it has none it is polled seldom.
-- `schema` is the newest that the caller knows, `name` that of the effect as the message has it.
-- `slot` is what the caller has for it: the number that the refusal `slot` gave before the slot was
-- acquired, 'none' if it needs no slot any more, or ''.
local function refused(status, detail)
  count(metrics, 'unclaimed', plan.name, status)
  return {status, detail or '', '0', {}, {}, '', ''}
end

local entry = read_entry(record, plan.suffix)
if not entry or entry.state == 'draining' then
  return refused('gone')
end
if entry.name ~= plan.name then
  return refused('other', entry.name)
end
local repeated = entry.state ~= 'owed' and string.match(entry.token, '^%d+%-(.*)$') == plan.nonce
if not repeated then
  if entry.state == 'quarantined' then
    return refused('quarantined')
  end
  local paused, schema, since, slots = unpack(
    redis.call('HMGET', record, 'paused', 'schema', 'since', 's:' .. plan.suffix)
  )
  if paused == '1' then
    return refused('paused')
  end
  -- However old the lease is: only a sweep, after the health gate, may call a holder lost.
  if entry.state == 'leased' then
    return refused('held', entry.holder)
  end
  if entry.no_restart == 1 then
    return refused('carried')
  end
  if entry.attempts >= entry.attempts_max then
    return refused('exhausted')
  end
  if now_ms < entry.not_before then
    return refused('early', tostring(entry.not_before))
  end
  local occupied = entry.exclusive == 1 and occupied_until(record, plan.suffix, entry)
  if occupied then
    return refused('busy', tostring(occupied))
  end
  if tonumber(schema) > plan.schema then
    return refused('newer', schema)
  end
  if slots and plan.slot ~= 'none' then
    local number, priority = unpack(redis.call('HMGET', record, 'last_token', 'priority'))
    if plan.slot ~= number then
      wait_for_slot(record, {effects, waits, timers}, plan.id, plan.suffix, entry)
      return {'slot', table.concat({slots, number, priority, since}, ' '), '0', {}, {}, '', ''}
    end
  end
  count(metrics, 'attempt', plan.name, entry.begun == 0 and 'first' or 'again')
  if entry.begun == 0 and entry.kind == 'state' then
    observe(metrics, now_ms - since, 'lag', plan.name)
  end
  book_residue(record, chain, entry)
  grant(record, log, plan.suffix, entry, plan.nonce, plan.holder)
end

local asked = asks_person(entry)
lease(record, effects, plan.id, plan.suffix, entry, plan.holder, plan.lease_ms)
if asked then
  stop_asking(record, waits, timers, plan.id)
end
local fields = redis.call('HGETALL', record)
local outcome, hung = unpack(
  redis.call('HMGET', saved, plan.suffix .. ' @outcome', plan.suffix .. ' @hung')
)
local counters = redis.call('HGETALL', chain[1])
local kept = {outcome or '', hung or ''}
return {'granted', entry.token, tostring(entry.attempts), fields, counters, unpack(kept)}
