--@use clock keys holds_and_queues limits feed family_log timer new_effects initial_lease
--@use search_index metrics fields
-- Creates a record: its first event, its effects and timers, its membership in a countdown of its
-- parent. A repeat changes nothing. Below the id of a record only that record creates others,
-- unless the ids of the machine begin with a record of that kind, as those of jobs with a graph.
-- KEYS     record, counters, log, tombstone, effects, timers, waits, index of its state, creation
--          index, search index, metrics, feed, [parent that counts it, members of the countdown,
--          children of the parent], [holds, hold queue, queue that is left, queue that is entered,
--          queues], records above it, the root first, [family log], queues of messages
-- ARGV     plan, data, event, messages of its effects
-- Returns  {status, version, ms, machine of the parent that counts it or ''}; status: created |
--          replayed | taken | another (child of this countdown) | pruned | closed, or with a detail
--          in the place of the version: held, by which record | below, which record
local record = KEYS[1]
local counters = KEYS[2]
local log = KEYS[3]
local tombstone = KEYS[4]
local effects = KEYS[5]
local timers = KEYS[6]
local waits = KEYS[7]
local state_index = KEYS[8]
local creation_index = KEYS[9]
local search_index = KEYS[10]
local metrics = KEYS[11]
local feed = KEYS[12]
local plan = cjson.decode(ARGV[1])
local data = ARGV[2]
local event = ARGV[3]
local messages = {unpack(ARGV, 4)}
local countdown_keys, next_key = keys_at(13, plan.countdown and 3 or 0)
local shared_keys, next_key = keys_at(next_key, plan.shares and 5 or 0)
local above_keys, next_key = keys_at(next_key, #plan.above)
local family_log_keys, next_key = keys_at(next_key, plan.family_log_length > 0 and 1 or 0)
local message_queues = keys_at(next_key, #messages)
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
  if countdown == (plan.countdown or '') then
    status = digest == plan.digest and 'replayed' or plan.countdown and 'another' or 'taken'
  end
  count(metrics, 'refused', plan.machine, status)
  return {status, version, '0'}
end
local pruned_digest = redis.call('GET', tombstone)
if pruned_digest then
  return {pruned_digest == plan.digest and 'pruned' or 'taken', '0', '0'}
end
if plan.countdown then
  local parent, members = unpack(countdown_keys)
  if has_ended(parent) or redis.call('SISMEMBER', members, '*') == 0 then
    return {'closed', '0', '0'}
  end
end
for n, above in ipairs(plan.above) do
  local machine = redis.call('HGET', above_keys[n], 'machine')
  if machine and machine ~= above.machine then
    return {'below', machine .. ' ' .. above.id, '0'}
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
if plan.countdown then
  local parent, members, children = unpack(countdown_keys)
  parent_machine = redis.call('HGET', parent, 'machine')
  redis.call('HSET', record, 'parent_machine', parent_machine)
  redis.call('SADD', members, id)
  redis.call('SADD', children, id)
end
local fields = {
  'machine', plan.machine, 'state', plan.state, 'version', '1', 'entered', '1',
  'schema', plan.schema, 'since', now_ms, 'created', now_ms, 'priority', plan.priority,
  'digest', plan.digest, 'last_token', '0', 'countdown', plan.countdown or '',
  'waits', plan.waits and '1' or '', 'title', plan.title, 'data', data,
}
local owner = {id = id, fields = fields, created = now_ms, poll_ms = plan.poll_ms}
owner.effects, owner.timers = effects, timers
set_limits(counters, plan.caps)
add_to_feed(feed, plan, '1')
add_to_family_log(family_log_keys[1], plan.family_log_length, id, '1')
redis.call('XADD', log, '1-0', 'event', event, 'at', now_ms)
redis.call('ZADD', state_index, now_ms, id)
redis.call('ZADD', creation_index, now_ms, id)
add_names(search_index, plan.names)
count(metrics, 'transition', plan.machine, '-', plan.state)
if plan.waits then
  redis.call('ZADD', waits, now_ms, id)
end
set_timers(owner, plan.timers, '1')
create_effects(owner, plan, '1', message_queues, messages)
if plan.initial_lease then
  lease_at_once(owner, plan, '1', log, '0')
end
redis.call('HSET', record, unpack(fields))
if plan.shares then
  change_shares(plan.shares, shared_keys, effects, record, id)
end
return {'created', '1', tostring(now_ms), parent_machine}
