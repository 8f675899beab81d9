--@use clock budget timer
-- Brings one record back as its log has it, where there is none: its place in the lists, its sums up the tree. A repeat changes nothing.
-- A root takes a name of its family for as long as the others are not back: none of them is restored, and nothing is born, without that.
-- KEYS  record, tombstone, log, timers, in state, ended index, holds, inbox, record above, chain of counters...
-- ARGV  plan, data, then for each line of the log its position, 'event' or a note's kind, its text, its ms
-- Returns {word}: restored | there | taken | pruned | remains | held | closed
local plan = cjson.decode(ARGV[1])
local kept = redis.call('HMGET', KEYS[1], 'birth', 'version', 'state', 'data')
if kept[1] then
  local same = kept[2] == plan.version and kept[3] == plan.state and kept[4] == ARGV[2]
  -- A root may have moved on since an interrupted attempt: it takes mail.
  same = same or plan.chain == 1 and redis.call('HGET', KEYS[7], plan.name) == plan.holder
  return {same and kept[1] == plan.birth and 'there' or 'taken'}
end
if redis.call('EXISTS', KEYS[2]) == 1 then return {'pruned'} end
if redis.call('EXISTS', KEYS[3], KEYS[10]) > 0 then return {'remains'} end
if plan.chain == 1 then
  if redis.call('HLEN', KEYS[7]) > 0 then return {'held'} end
elseif redis.call('HGET', KEYS[7], plan.name) ~= plan.holder or redis.call('EXISTS', KEYS[9]) == 0 then return {'closed'} end
if plan.chain == 1 then redis.call('HSET', KEYS[7], plan.name, plan.holder) end
redis.call('HSET', KEYS[1], 'machine', plan.machine, 'state', plan.state, 'version', plan.version, 'entered', plan.entered, 'schema', plan.schema,
  'since', plan.since, 'created', plan.created, 'priority', plan.priority, 'birth', plan.birth, 'last', '0', 'counted', '', 'person', '', 'data', ARGV[2])
for at = 3, #ARGV, 4 do
  local word = ARGV[at + 1]
  if word == 'event' then redis.call('XADD', KEYS[3], ARGV[at], 'event', ARGV[at + 2], 'at', ARGV[at + 3])
  else redis.call('XADD', KEYS[3], ARGV[at], 'note', word, 'detail', ARGV[at + 2], 'at', ARGV[at + 3]) end
end
redis.call('ZADD', KEYS[5], plan.since, plan.id)
if plan.ends then
  redis.call('HSET', KEYS[1], 'ended', '1', 'paused', '')
  redis.call('ZADD', KEYS[6], plan.since, plan.id)
end
for _, timer in ipairs(plan.timers) do set_timer(KEYS[1], KEYS[4], plan.id, timer.name, timer.ms, plan.entered, '0', false) end
local chain = {}
for n = 1, plan.chain do chain[n] = KEYS[9 + n] end
count(chain, plan.sums)
-- What is posted from now on comes after what was read before, whatever this server's clock says.
if plan.read ~= '' and redis.call('EXISTS', KEYS[8]) == 0 then
  redis.call('XADD', KEYS[8], plan.read, 'mail', '{}')
  redis.call('XDEL', KEYS[8], plan.read)
end
return {'restored'}
