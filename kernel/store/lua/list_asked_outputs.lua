--@use clock
-- Lists the folders of a computer whose output is asked for now.
-- KEYS     asked
-- ARGV     ms for which a question counts
-- Returns  {folder, ...}
local asked = KEYS[1]
local counts_ms = tonumber(ARGV[1])

return redis.call('ZRANGE', asked, '(' .. now_ms - counts_ms, '+inf', 'BYSCORE')
