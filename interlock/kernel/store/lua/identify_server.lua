--@use clock
-- Compares the server with the one that a partition was on before, and notes a changed one once,
-- however many processes find it changed. Says whether the health gate is open: only then may a
-- sweep call the holder of an old lease lost.
-- KEYS     meta
-- ARGV     run_id, format, partitions, incarnation, passing?, period_ms, lease_ms, version
-- Returns  {incarnation, format, partitions, version, gate, changed, run id, now, pass before,
--          moves}; gate: open | closed, changed: '1' | '', moves: how often due times were moved
-- A `run_id` of '' is that of this server; `incarnation` is the id of a new one. `passing`: a sweep
-- passes now; `period_ms` is that of the sweeps; `version` is that of Interlock.
local run_id = plan.run_id

if run_id == '' then
  run_id = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
end
local known_run_id, incarnation, known_format, known_partitions, last_pass, open_at, moves = unpack(
  redis.call(
    'HMGET', meta, 'run_id', 'incarnation', 'format', 'partitions', 'last_pass', 'open_at', 'moves'
  )
)
local changed = ''
if not known_format then
  known_format, known_partitions = plan.format, plan.partitions
  redis.call(
    'HSET', meta, 'format', plan.format, 'partitions', plan.partitions, 'version', plan.version
  )
end
if not known_run_id then
  incarnation, last_pass, open_at = plan.incarnation, now_ms, '0'
  redis.call('HSET', meta, 'run_id', run_id, 'incarnation', incarnation, 'open_at', open_at)
elseif known_run_id ~= run_id then
  changed = '1'
  incarnation = plan.incarnation
  open_at = tostring(now_ms + plan.lease_ms)
  redis.call('HSET', meta, 'run_id', run_id, 'incarnation', incarnation, 'open_at', open_at)
end
if tonumber(open_at) > now_ms + plan.lease_ms then -- the clock was set back
  open_at = tostring(now_ms + plan.lease_ms)
  redis.call('HSET', meta, 'open_at', open_at)
end
if plan.passing then
  -- After a stall of the sweeps, holders have the time of one lease to renew theirs. It is given
  -- once: sweeps that are always late must find orphans, too.
  local stalled = last_pass and now_ms - tonumber(last_pass) > 2 * plan.period_ms
  if stalled and tonumber(open_at) <= tonumber(last_pass) then
    open_at = tostring(now_ms + plan.lease_ms)
    redis.call('HSET', meta, 'open_at', open_at)
  end
  redis.call('HSET', meta, 'last_pass', now)
end
local gate = tonumber(open_at) <= now_ms and 'open' or 'closed'
return {
  incarnation, known_format, known_partitions, redis.call('HGET', meta, 'version') or '',
  gate, changed, run_id,
  tostring(now_ms), tostring(last_pass or now_ms), moves or '0'
}
