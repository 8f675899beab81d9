--@use clock holds_and_queues limits log_hops timer new_effects initial_lease search_index metrics
-- Creates a record: its first event, its effects and timers, its membership in a countdown of its
-- parent. A repeat changes nothing. Below the id of a record only that record creates others,
-- unless the ids of the machine begin with a record of that kind, as those of jobs with a graph.
-- KEYS     record, counters, log, tombstone, effects, timers, waits, state_index, creation_index,
--          search_index, metrics, feed, spawn_members, parent_keys..., shared_keys...,
--          above_keys..., family_log..., message_queues...
-- ARGV     id, machine, state, schema, priority, digest, nonce, countdown, title, data*, waits?,
--          spawns?, needs_parent?, poll_ms, feed_length, family_log_length, leased_at?,
--          lease_effect?, lease_entry?, lease_nonce?, lease_holder?, lease_ms?, lease_grace_ms?,
--          late_at?, shares?, caps?, slots?, names..., above..., timers..., effects..., states...,
--          logged*..., messages*..., events*...
-- Returns  {status, version, ms, machine of the parent that counts it or ''}; status: created |
--          replayed | taken | another (child of this countdown) | pruned | closed, or with a detail
--          in the place of the version: held, by which record | below, which record
-- `countdown` is '' where no parent counts the record; parent_keys are the parent, the members of
-- the countdown and the children of the parent. above_keys are the records above it, the root
-- first, and `above` has the id and the machine of each. What follows the creation has an event
-- too.
local id = plan.id

local function has_ended(parent)
  local ended, state = unpack(redis.call('HMGET', parent, 'ended', 'state'))
  return ended == '1' or not state
end

local digest, countdown, version = unpack(
  redis.call('HMGET', record, 'digest', 'countdown', 'version')
)
if digest then
  local status = 'taken'
  if countdown == plan.countdown then
    status = digest == plan.digest and 'replayed' or plan.countdown ~= '' and 'another' or 'taken'
  end
  count(metrics, 'refused', plan.machine, status)
  return {status, version, '0'}
end
local pruned_digest = redis.call('GET', tombstone)
if pruned_digest then
  return {pruned_digest == plan.digest and 'pruned' or 'taken', '0', '0'}
end
if plan.countdown ~= '' then
  local parent, members = unpack(parent_keys)
  if has_ended(parent) or redis.call('SISMEMBER', members, '*') == 0 then
    return {'closed', '0', '0'}
  end
end
for n, above_key in ipairs(above_keys) do
  local above_id, wanted = plan.above[2 * n - 1], plan.above[2 * n]
  local machine = redis.call('HGET', above_key, 'machine')
  if machine and machine ~= wanted then
    return {'below', machine .. ' ' .. above_id, '0'}
  end
end
if plan.needs_parent and has_ended(above_keys[#above_keys]) then
  return {'closed', '0', '0'}
end
local holds, hold_queue = unpack(shared_keys)
local holder = plan.shares and other_holder(holds, hold_queue, plan.shares.takes, id)
if holder then
  return {'held', holder, '0'}
end

local parent_machine = ''
if plan.countdown ~= '' then
  local parent, members, children = unpack(parent_keys)
  parent_machine = redis.call('HGET', parent, 'machine')
  redis.call('HSET', record, 'parent_machine', parent_machine)
  redis.call('SADD', members, id)
  redis.call('SADD', children, id)
end
local version = tostring(#plan.events)
local fields = {
  'machine', plan.machine, 'state', plan.state, 'version', version, 'entered', version,
  'schema', plan.schema, 'since', now_ms, 'created', now_ms, 'priority', plan.priority,
  'digest', plan.digest, 'last_token', '0', 'countdown', plan.countdown,
  'waits', plan.waits and '1' or '', 'title', plan.title, 'data', plan.data,
}
local owner = {id = id, fields = fields, created = now_ms, poll_ms = plan.poll_ms}
owner.effects, owner.timers, owner.metrics = effects, timers, metrics
set_limits(counters, plan.caps)
log_hops(plan, 1, log, feed, family_log[1])
redis.call('ZADD', state_index, now, id)
redis.call('ZADD', creation_index, now, id)
add_names(search_index, plan.names)
count_creation(metrics, plan)
if plan.waits then
  redis.call('ZADD', waits, now, id)
end
set_timers(owner, plan.timers, version)
create_effects(owner, plan, version, message_queues, plan.messages)
if plan.leased_at then
  lease_at_once(owner, plan, version, log, '0')
end
redis.call('HSET', record, unpack(fields))
if plan.spawns then
  redis.call('SADD', spawn_members, '*')
end
if plan.shares then
  change_shares(plan.shares, shared_keys, effects, record, id)
end
return {'created', version, now, parent_machine}
