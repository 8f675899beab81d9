--@use clock keys ops warrant preconditions transition quarantine timer holds_and_queues
--@use new_effects countdown limits deltas feed family_log initial_lease search_index metrics
-- Commits one decision, or nothing: it tests first, and from its first write on nothing can fail.
-- KEYS     record, log, ops, times of ops, effects, timers, waits, index of the old state, index of
--          the new state, ended index, search index, metrics, feed, members of the new countdown,
--          saved results, chain of counters, records read as facts, [parent that counts it, its
--          members, its tally], [holds, hold queue, queue left, queue entered, queues], [family
--          log], queues
-- ARGV     plan, data ('': unchanged), event, messages of its effects and of the parent's advance
-- Returns  {status, version, ms, paused, suffix of the parent's advance}; status: committed |
--          replayed | reused | missing | fenced | conflict | held | over | paused | busy, and for
--          the last four a detail in the place of the suffix
local record = KEYS[1]
local log = KEYS[2]
local ops = KEYS[3]
local op_times = KEYS[4]
local effects = KEYS[5]
local timers = KEYS[6]
local waits = KEYS[7]
local old_state_index = KEYS[8]
local new_state_index = KEYS[9]
local ended_index = KEYS[10]
local search_index = KEYS[11]
local metrics = KEYS[12]
local feed = KEYS[13]
local spawn_members = KEYS[14]
local plan = cjson.decode(ARGV[1])
local data, event = ARGV[2], ARGV[3]
local messages = {unpack(ARGV, 4)}
local chain, next_key = keys_at(16, plan.chain_length)
local fact_records, next_key = keys_at(next_key, #plan.fact_versions)
local parent_keys, next_key = keys_at(next_key, plan.parent and 3 or 0)
local shared_keys, next_key = keys_at(next_key, plan.shares and 5 or 0)
local family_log_keys, next_key = keys_at(next_key, plan.family_log_length and 1 or 0)
local message_queues = keys_at(next_key, #messages)

local function refused(status, version, ms, detail)
  count(metrics, 'refused', plan.machine, status)
  return {status, version, ms or '0', '', detail or ''}
end

local known, known_version, known_ms = known_outcome(ops, plan.op_id, plan.digest)
if known then
  return refused(known, known_version, known_ms)
end
local stored, was_paused = unpack(redis.call('HMGET', record, 'version', 'paused'))
if not stored then
  return refused('missing', '0')
end
if not is_warranted(record, plan.warrant) then
  return refused('fenced', stored)
end
if stored ~= plan.version then
  return refused('conflict', stored)
end
local failed, detail = failed_precondition(plan, record, chain, fact_records, shared_keys)
if failed then
  return refused(failed, stored, '0', detail)
end

local version, was_paused = tostring(plan.version + 1), was_paused == '1'
local paused = was_paused and not plan.ends
local owner = {
  id = plan.id,
  record = record,
  effects = effects,
  timers = timers,
  chain = chain,
  metrics = metrics,
  saved = KEYS[15],
  fields = redis.call('HKEYS', record),
  paused = paused,
  poll_ms = plan.poll_ms,
}
local reporting = plan.warrant[1] == 'token' and plan.warrant[2] or ''
local asks_left, quarantine_left = change_effects(owner, plan, reporting, was_paused)
if data ~= '' then
  redis.call('HSET', record, 'data', data)
end
change_title(record, search_index, plan.retitle)
if plan.mode == 'internal' then
  stay_in_state(owner, plan, version, waits, asks_left)
  stop_asking(record, waits, timers, plan.id)
  count(metrics, 'transition', plan.machine, plan.state, plan.state)
else
  end_timers(owner, plan, quarantine_left)
  count_move(metrics, plan, record)
  enter_state(owner, plan, version, {old_state_index, new_state_index, waits}, asks_left)
end
set_timers(record, timers, plan.id, plan.timers, version, paused)
if plan.ends then
  redis.call('HSET', record, 'ended', '1', 'paused', '')
  note_end(metrics, plan.machine)
  if plan.root then
    redis.call('ZADD', ended_index, now_ms, plan.id)
  end
end
if plan.shares then
  change_shares(plan.shares, shared_keys, effects, record, plan.id)
end
if plan.spawns then
  redis.call('SADD', spawn_members, '*')
end
local leased_suffix = create_effects(owner, plan, version, message_queues, messages)
local advance = ''
if plan.parent then
  local queue, message = message_queues[#plan.effects + 1], messages[#plan.effects + 1]
  advance = leave_countdown(plan.parent, parent_keys, effects, plan.id, plan.state, queue, message)
end
set_limits(chain[1], plan)
add_deltas(chain, plan.deltas)
add_to_sums(metrics, plan.machine, plan.deltas)
add_to_feed(feed, plan, version)
add_to_family_log(family_log_keys[1], plan.family_log_length, plan.id, version)
redis.call('XADD', log, version .. '-0', 'event', event, 'at', now_ms, unpack(plan.logged or {}))
if leased_suffix then
  lease_at_once(record, log, effects, plan.id, leased_suffix, plan.initial_lease)
end
record_outcome(ops, op_times, plan.op_id, plan.digest, version, plan.window_ms)
return {'committed', version, tostring(now_ms), paused and '1' or '', advance}
