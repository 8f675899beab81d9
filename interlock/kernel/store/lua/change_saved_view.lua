-- Keeps a saved view, in the place of one with the same name; without a text, drops it.
-- KEYS     views
-- ARGV     name, text*, most
-- Returns  {status}; status: kept | dropped | missing | full
if plan.text == '' then
  return {redis.call('HDEL', views, plan.name) == 1 and 'dropped' or 'missing'}
end
if redis.call('HEXISTS', views, plan.name) == 0 and redis.call('HLEN', views) >= plan.most then
  return {'full'}
end
redis.call('HSET', views, plan.name, plan.text)
return {'kept'}
