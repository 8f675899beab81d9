-- What happened to a family, in the order of its commits: which record came to which version. Its key is the last.
-- plan.chronicle is how many are kept at least.
local function chronicle(plan, id, version)
  if plan.chronicle then
    redis.call('XADD', KEYS[#KEYS], 'MAXLEN', '~', plan.chronicle, '*', 'of', id, 'version', version)
  end
end
