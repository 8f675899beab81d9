--@use keys deltas timer search_index
-- Restores one record from its log where it does not exist: its place in the indexes, its sums in
-- the tree. A repeat changes nothing. While a family is restored its root holds a name: no record
-- below is restored without it, and none is created that needs it.
-- KEYS     record, tombstone, log, timers, index of its state, ended index, holds, inbox, parent,
--          creation index, search index, chain of counters
-- ARGV     plan, data, then for each line of the log its position, 'event' or the kind of a note,
--          its text and its ms
-- Returns  {status}: restored | present | taken | pruned | leftovers | held | closed
local record = KEYS[1]
local tombstone = KEYS[2]
local log = KEYS[3]
local timers = KEYS[4]
local state_index = KEYS[5]
local ended_index = KEYS[6]
local holds = KEYS[7]
local inbox = KEYS[8]
local parent = KEYS[9]
local creation_index = KEYS[10]
local search_index = KEYS[11]
local plan = cjson.decode(ARGV[1])
local data = ARGV[2]
local chain = keys_at(12, plan.chain_length)
local is_root = plan.chain_length == 1

local digest, version, state, stored_data = unpack(
  redis.call('HMGET', record, 'digest', 'version', 'state', 'data')
)
local is_restored_now = redis.call('HGET', holds, plan.hold) == plan.holder
if digest then
  local same = version == plan.version and state == plan.state and stored_data == data
  -- A root may have changed since an attempt that was interrupted, because it takes mail.
  same = same or is_root and is_restored_now
  return {same and digest == plan.digest and 'present' or 'taken'}
end
if redis.call('EXISTS', tombstone) == 1 then
  return {'pruned'}
end
if redis.call('EXISTS', log, chain[1]) > 0 then
  return {'leftovers'}
end
if is_root then
  if redis.call('HLEN', holds) > 0 then
    return {'held'}
  end
  redis.call('HSET', holds, plan.hold, plan.holder)
elseif not is_restored_now or redis.call('EXISTS', parent) == 0 then
  return {'closed'}
end

redis.call(
  'HSET', record, 'machine', plan.machine, 'state', plan.state, 'version', plan.version,
  'entered', plan.entered, 'schema', plan.schema, 'since', plan.since, 'created', plan.created,
  'priority', plan.priority, 'digest', plan.digest, 'last_token', '0', 'countdown', '',
  'waits', '', 'title', plan.title, 'data', data
)
for n = 3, #ARGV, 4 do
  local position, kind, text, at_ms = unpack(ARGV, n, n + 3)
  if kind == 'event' then
    redis.call('XADD', log, position, 'event', text, 'at', at_ms)
  else
    redis.call('XADD', log, position, 'note', kind, 'detail', text, 'at', at_ms)
  end
end
redis.call('ZADD', state_index, plan.since, plan.id)
redis.call('ZADD', creation_index, plan.created, plan.id)
add_names(search_index, plan.names)
if plan.ends then
  redis.call('HSET', record, 'ended', '1', 'paused', '')
  redis.call('ZADD', ended_index, plan.since, plan.id)
end
local owner = {id = plan.id, fields = {}, timers = timers, created = plan.created}
set_timers(owner, plan.timers, plan.entered)
if #owner.fields > 0 then
  redis.call('HSET', record, unpack(owner.fields))
end
add_deltas(chain, plan.sums)
-- New mail must come after what was read before, even where the clock of this server is behind.
-- A stream keeps its newest position when the message there is deleted.
if plan.read_up_to ~= '' and redis.call('EXISTS', inbox) == 0 then
  redis.call('XADD', inbox, plan.read_up_to, 'mail', '{}')
  redis.call('XDEL', inbox, plan.read_up_to)
end
return {'restored'}
