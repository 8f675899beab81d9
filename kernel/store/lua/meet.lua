--@use clock
-- The partition's own record of the server it lives on: a changed server is noted once, however many notice it.
-- KEYS  meta
-- ARGV  run id, format, partitions, a fresh incarnation, '1' if a sweep passes now, period ms, lease ms
-- Returns {incarnation, format, partitions, gate ('open' | 'closed'), changed ('1' | '')}
local meta = redis.call('HMGET', KEYS[1], 'run_id', 'incarnation', 'format', 'partitions', 'last_pass', 'open_at')
local changed = ''
if not meta[1] then
  redis.call('HSET', KEYS[1], 'run_id', ARGV[1], 'incarnation', ARGV[4], 'format', ARGV[2], 'partitions', ARGV[3], 'up_since', whole(now), 'open_at', '0')
  meta = {ARGV[1], ARGV[4], ARGV[2], ARGV[3], whole(now), '0'}
elseif meta[1] ~= ARGV[1] then
  changed = '1'
  meta[2], meta[6] = ARGV[4], whole(now + tonumber(ARGV[7]))
  redis.call('HSET', KEYS[1], 'run_id', ARGV[1], 'incarnation', meta[2], 'up_since', whole(now), 'open_at', meta[6])
end
if ARGV[5] == '1' then
  -- After a stall of the sweeps themselves, holders get one lease to show that they live.
  -- Only once: sweeps that are always late must find their orphans, too.
  if meta[5] and now - tonumber(meta[5]) > 2 * tonumber(ARGV[6]) and tonumber(meta[6]) <= tonumber(meta[5]) and changed == '' then
    meta[6] = whole(now + tonumber(ARGV[7]))
    redis.call('HSET', KEYS[1], 'open_at', meta[6])
  end
  redis.call('HSET', KEYS[1], 'last_pass', whole(now))
end
return {meta[2], meta[3], meta[4], tonumber(meta[6]) <= now and 'open' or 'closed', changed}
