--@use clock entry timer
-- Moves the due times of a partition after the clock of its server was set ahead or back, once,
-- however many processes have seen that. Timers keep the time that was left, unless they are due
-- at a fixed time. A lease whose end would come later than one lease from now gets one lease, so
-- that its holder renews it or is lost.
-- KEYS     meta, effects, timers, timer_records..., effect_records...
-- ARGV     moves, jump_ms, old_until, timers..., effects...
-- Returns  {status}: moved | known
-- `moves`: how often times were moved before. `jump_ms`: by how much the clock was set ahead, or
-- back where it is negative. `old_until`: the last ms of the clock as it was before. Each timer is
-- {id, name}, each effect {id, suffix, lease_ms}.
local jump_ms = plan.jump_ms

if tonumber(redis.call('HGET', meta, 'moves') or 0) ~= plan.moves then
  return {'known'}
end
redis.call('HSET', meta, 'moves', plan.moves + 1, 'jump_ms', jump_ms, 'jumped_at', now)

-- Whether a time was noted before the clock was set. The clock as it is now has only noted what
-- lies between the end of the clock as it was, moved like the clock, and now.
local function is_old(noted_ms)
  return noted_ms < plan.old_until + math.min(jump_ms, 0) or noted_ms > now_ms
    or jump_ms > 0 and noted_ms <= plan.old_until
end

for n, timer in ipairs(plan.timers) do
  local record = timer_records[n]
  local due_at, version, left, fired, fixed = read_timer(record, timer.name)
  local since = redis.call('HGET', record, 'since')
  if left == '-' and fixed == '' and is_old(tonumber(since)) then
    local moved = tonumber(due_at) + jump_ms
    write_timer(record, timer.name, moved, version, left, fired, fixed)
    redis.call('ZADD', timers, moved, timer.id .. ':' .. timer.name)
  end
end

for n, effect in ipairs(plan.effects) do
  local record = effect_records[n]
  local entry = read_entry(record, effect.suffix)
  if entry and jump_ms < 0 then
    local lease_ends = now_ms + effect.lease_ms
    entry.lease_until = math.min(entry.lease_until, lease_ends)
    entry.kill_by = math.min(entry.kill_by, lease_ends + entry.grace_ms)
    entry.not_before = math.max(entry.not_before + jump_ms, now_ms)
    write_entry(record, effect.suffix, entry)
    -- The next poll finds when it is due.
    redis.call('ZADD', effects, 'LT', now, effect.id .. ':' .. effect.suffix)
  elseif entry and (entry.state == 'lapsed' or entry.state == 'draining') then
    -- Its last holder may live until then, by a clock that nobody has set.
    entry.kill_by = entry.kill_by + jump_ms
    write_entry(record, effect.suffix, entry)
  end
end
return {'moved'}
