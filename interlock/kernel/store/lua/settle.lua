--@use keys entry drop quarantine countdown metrics saved
-- Settles an effect: ends one of a transition, or confirms that a draining one has ended. A live
-- effect of a state is refused, because only an outcome ends it. The end of a spawn takes the
-- placeholder out of its countdown.
-- KEYS     record, effects, waits, timers, members of the countdown, its tally, metrics, saved
--          results, chain of counters, [queue of the advance]
-- ARGV     plan, [message of the advance]
-- Returns  {status, suffix of the advance or ''}; status: settled | lost | refused
local record = KEYS[1]
local effects = KEYS[2]
local waits = KEYS[3]
local timers = KEYS[4]
local members = KEYS[5]
local tally = KEYS[6]
local metrics = KEYS[7]
local saved = KEYS[8]
local plan = cjson.decode(ARGV[1])
local message = ARGV[2]
local chain, next_key = keys_at(9, plan.chain_length)
local message_queue = KEYS[next_key]
local id = plan.id
local suffix = plan.suffix

local entry = read_entry(record, suffix)
if not entry or entry.token ~= plan.token then
  return {'lost', ''}
end
if entry.kind == 'state' and entry.state ~= 'draining' then
  return {'refused', ''}
end

local owner = {id = id, record = record, effects = effects, chain = chain}
drop(owner, suffix, entry, false)
forget_saved(saved, suffix)
count(metrics, 'run', entry.name, entry.state == 'draining' and 'stopped' or 'settled')
if entry.state == 'quarantined' then
  stop_asking(record, waits, timers, id)
end
local advance = ''
if entry.kind == 'spawn' then
  local keys = {record, members, tally}
  advance = leave_countdown(plan.parent, keys, effects, '*', '', message_queue, message)
end
return {'settled', advance}
