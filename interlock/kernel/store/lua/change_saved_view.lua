-- Keeps a saved view, in the place of one with the same name; without a text, drops it.
-- KEYS     saved views
-- ARGV     name, text, how many there may be
-- Returns  {status}; status: kept | dropped | missing | full
local views = KEYS[1]
local name = ARGV[1]
local text = ARGV[2]
local most = tonumber(ARGV[3])

if text == '' then
  return {redis.call('HDEL', views, name) == 1 and 'dropped' or 'missing'}
end
if redis.call('HEXISTS', views, name) == 0 and redis.call('HLEN', views) >= most then
  return {'full'}
end
redis.call('HSET', views, name, text)
return {'kept'}
