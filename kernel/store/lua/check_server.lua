--@use clock
-- The partition's own record of the server it lives on: a changed server is noted once, however many notice it.
-- KEYS  meta
-- ARGV  run id ('' = the server's own), format, partitions, a fresh incarnation, '1' if a sweep passes now, period ms, lease ms
-- Returns {incarnation, format, partitions, gate ('open' | 'closed'), changed ('1' | ''), run id}
local here = ARGV[1] ~= '' and ARGV[1] or string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local meta = redis.call('HMGET', KEYS[1], 'run_id', 'incarnation', 'format', 'partitions', 'last_pass', 'open_at')
local changed = ''
if not meta[1] then
  redis.call('HSET', KEYS[1], 'run_id', here, 'incarnation', ARGV[4], 'format', ARGV[2], 'partitions', ARGV[3], 'up_since', whole(now), 'open_at', '0')
  meta = {here, ARGV[4], ARGV[2], ARGV[3], whole(now), '0'}
elseif meta[1] ~= here then
  changed = '1'
  meta[2], meta[6] = ARGV[4], whole(now + tonumber(ARGV[7]))
  redis.call('HSET', KEYS[1], 'run_id', here, 'incarnation', meta[2], 'up_since', whole(now), 'open_at', meta[6])
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
return {meta[2], meta[3], meta[4], tonumber(meta[6]) <= now and 'open' or 'closed', changed, here}
