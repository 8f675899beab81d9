--@use clock ops warrant preconditions transition quarantine timer fields holds_and_queues
--@use ending new_effects countdown limits deltas log_hops initial_lease search_index metrics
-- Commits one decision, or nothing: it tests first, and from its first write on nothing can fail.
-- What changes in the hash of the record is collected in `fields`, and written by one call.
-- KEYS     record, log, ops, op_times, effects, timers, waits, old_state_index, new_state_index,
--          ended_index, search_index, metrics, feed, spawn_members, saved, chain...,
--          fact_records..., subscribers..., parent_keys..., shared_keys..., family_log...,
--          message_queues...
-- ARGV     id, machine, op_id, digest, version, trigger, mode, state, nonce, data*, mirror?,
--          notification?, waits?, asks_anew?, interrupts?, fires_exhausted?, spawns?, ends?, root?,
--          poll_ms, window_ms, feed_length, family_log_length, leased_at?, lease_effect?,
--          lease_entry?, lease_nonce?, lease_holder?, lease_ms?, lease_grace_ms?,
--          lease_exclusive?, lease_optional?, late_at?, parent?, shares?, retitle?, caps?, deltas?,
--          slots?, warrant..., timers..., effects..., fact_versions..., states..., logged*...,
--          messages*..., events*...
-- Returns  {status, version, ms, paused, suffix of the parent's advance, of the notification}, and
--          where an effect was leased its token, {record}, {counters}; status: committed | replayed
--          | reused | missing | fenced | conflict | held | over | paused | busy, and for the last
--          four a detail in the place of the first suffix
-- `data` is '' where they do not change; `mirror` is the effect that shows the record elsewhere;
-- `notification` is an entry where it ends. A decision may be of several transitions, each with an
-- event and a state that it enters; the record owes nothing of the states between.
local function refused(status, version, ms, detail)
  count(metrics, 'refused', plan.machine, status)
  return {status, version, ms or '0', '', detail or ''}
end

local known, known_version, known_ms = known_outcome(ops, plan.op_id, plan.digest)
if known then
  return refused(known, known_version, known_ms)
end
local stored, paused, source, since, created, last_token = unpack(
  redis.call('HMGET', record, 'version', 'paused', 'state', 'since', 'created', 'last_token')
)
if not stored then
  return refused('missing', '0')
end
local warranted, reported = is_warranted(record, plan.warrant)
if not warranted then
  return refused('fenced', stored)
end
if stored ~= plan.version then
  return refused('conflict', stored)
end
local was_paused = paused == '1'
local keys = {chain = chain, facts = fact_records, shared = shared_keys}
local failed, detail = failed_precondition(plan, record, was_paused, keys)
if failed then
  return refused(failed, stored, '0', detail)
end

local version = string.format('%d', plan.version + #plan.events)
local fields = {'version', version} -- each followed by its value
local owner = {
  id = plan.id,
  record = record,
  fields = fields,
  created = created,
  effects = effects,
  timers = timers,
  chain = chain,
  metrics = metrics,
  saved = saved,
  paused = was_paused and not plan.ends,
  poll_ms = plan.poll_ms,
}
local suffixes, timer_names = entry_suffixes(record)
local left = change_effects(owner, plan, suffixes, reported, was_paused)
if plan.data ~= '' then
  put(fields, 'data', plan.data)
end
if plan.retitle then
  change_title(fields, search_index, plan.retitle)
end
if plan.mode == 'internal' then
  if plan.asks_anew then
    put(fields, 'entered', version)
    note_waits(owner, plan, waits, left.asks)
  end
  count(metrics, 'transition', plan.machine, plan.state, plan.state)
else
  end_timers(owner, plan, timer_names, left.quarantined)
  count_moves(metrics, plan, source, since)
  enter_state(owner, plan, version, old_state_index, new_state_index)
  note_waits(owner, plan, waits, left.asks)
end
set_timers(owner, plan.timers, version)
local notified = plan.ends and end_record(owner, plan, version, ended_index, subscribers[1])
if plan.shares then
  change_shares(plan.shares, shared_keys, effects, record, plan.id)
end
if plan.spawns then
  redis.call('SADD', spawn_members, '*')
end
log_hops(plan, stored + 1, log, feed, family_log[1])
local used = create_effects(owner, plan, version, message_queues, plan.messages)
local leases = plan.leased_at and not owner.paused
local token = leases and lease_at_once(owner, plan, version, log, last_token)
redis.call('HSET', record, unpack(fields))
if left.revived then
  stop_asking(record, waits, timers, plan.id)
end
local advance = ''
if plan.parent then
  local queue, message = message_queues[used + 1], plan.messages[used + 1]
  advance = leave_countdown(plan.parent, parent_keys, effects, plan.id, plan.state, queue, message)
end
set_limits(chain[1], plan.caps)
if plan.deltas then
  add_deltas(chain, plan.deltas)
  add_to_sums(metrics, plan.machine, plan.deltas)
end
record_outcome(ops, op_times, plan.op_id, plan.digest, version, plan.window_ms)
paused = owner.paused and '1' or ''
local reply = {'committed', version, now, paused, advance, notified or ''}
if token then
  reply[7], reply[8] = token, redis.call('HGETALL', record)
  reply[9] = redis.call('HGETALL', chain[1])
end
return reply
