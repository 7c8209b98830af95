-- Settings that any role may change and that would otherwise reach into the definer functions: each of these gets
-- all of them here, the same for all, at every installation and upgrade. A test compares.
--
--   row_security                         switched off, every query on a table of pgrag's would be an error
--   plan_cache_mode, jit                 a generic plan or a JIT compilation turned 0.4 ms into seconds
--   standard_conforming_strings          otherwise a backslash in a pattern changes its meaning
--   transform_null_equals, array_nulls   what "= null" and a "null" in an array literal mean
--   debug_print_…                        plans hold parameters, and parameters hold keys
--   gin_fuzzy_search_limit               answers at random
--   the rest                             the form of times and bytes, which hashes and seals are made of
do $$
declare
  v_owner    text;
  v_function regprocedure;
begin
  for v_owner, v_function in
    select p.proowner::regrole::text, p.oid from pg_proc p
     where p.pronamespace in ('pgrag'::regnamespace, 'pgrag_private'::regnamespace) and p.prosecdef
       and p.proowner in ('pgrag_engine'::regrole, 'pgrag_owner'::regrole)
  loop
    execute 'set local role ' || v_owner;
    execute format('alter function %s
      set row_security = on
      set plan_cache_mode = force_custom_plan
      set jit = off
      set standard_conforming_strings = on
      set transform_null_equals = off
      set array_nulls = on
      set gin_fuzzy_search_limit = 0
      set TimeZone = ''UTC''
      set DateStyle = ''ISO, YMD''
      set IntervalStyle = ''iso_8601''
      set bytea_output = ''hex''
      set extra_float_digits = 1
      set debug_print_parse = off
      set debug_print_rewritten = off
      set debug_print_plan = off', v_function);
  end loop;
  set local role pgrag_engine;
end
$$;
