-- An access list pays from block_least() vectors on. A tenant as a whole: from ten times that, unless one list has nearly all.
create or replace function pgrag_private.deserves_block(p_chunks bigint, p_largest bigint, p_least bigint, p_acl_id bigint) returns boolean
language sql immutable parallel safe
return case when p_acl_id is not null then p_chunks >= p_least else p_chunks >= 10 * p_least and p_largest < 0.8 * p_chunks end;

-- Copies the next documents of a block's class, in order of their ids, with 20,000 vectors or so; copied_to null: there are no
-- more. What is copied is in force now, later than the block's snapshot: what it has too much is found twice, and
-- counted once.
create or replace function pgrag_private.copy_to_block(p_block pgrag_data.dense_block, out rows bigint, out copied_to bigint)
language plpgsql volatile parallel unsafe set plan_cache_mode = force_custom_plan as $$
declare
  v_revisions bigint[];
  v_base      pg_snapshot := (select b.snapshot from pgrag_data.dense_block b where b.tenant_id = p_block.tenant_id and b.block_id = p_block.base_id);
begin
  select array_agg(n.active_revision_id), max(n.document_id) into v_revisions, copied_to
    from (select d.document_id, d.active_revision_id, sum(r.chunk_count) over (order by d.document_id) - r.chunk_count as before
            from (select d.document_id, d.active_revision_id
                    from pgrag_data.document d
                   where d.tenant_id = p_block.tenant_id and (p_block.acl_id is null or d.acl_id = p_block.acl_id)
                     and d.deleted_at is null and d.active_revision_id is not null and d.document_id > p_block.copied_to
                     -- What is over now is over for good, and counted no more: copied, it would pass for retired, and the block be built anew for ever.
                     and transaction_timestamp() < d.active_until
                     and (v_base is null or d.changed_xid >= pg_snapshot_xmin(v_base) and not pg_visible_in_snapshot(d.changed_xid, v_base))
                   order by d.document_id
                   limit 5000) d
            join pgrag_data.revision r on r.tenant_id = p_block.tenant_id and r.revision_id = d.active_revision_id) n
   where n.before < 20000;
  execute format('insert into pgrag_block.%I (revision_id, chunk_no, embedding)
      select v.revision_id, v.chunk_no, coalesce(public.l2_normalize(v.embedding)::public.halfvec, public.l2_normalize(v.half))
        from unnest($1) as r (revision_id)
        join pgrag_data.chunk_vec v on v.tenant_id = $2 and v.space_id = $3 and v.revision_id = r.revision_id', 'b' || p_block.block_id)
    using v_revisions, p_block.tenant_id, p_block.space_id;
  get diagnostics rows = row_count;
end
$$;

-- Makes sums of the rows of access lists that have gathered many. Rows that somebody else is folding are left to them; what ended
-- a day ago counts for nobody any more.
create or replace function pgrag_private.fold_scope_totals() returns bigint
language plpgsql volatile parallel unsafe as $$
declare
  v_rows bigint;
begin
  with key as (
    select t.tenant_id, t.acl_id, count(*) as n,
           (t.until > clock_timestamp() - interval '1 day' and (sum(t.documents) <> 0 or sum(t.chunks) <> 0 or sum(t.lexemes) <> 0))::integer as stays
      from pgrag_data.scope_total t
     group by t.tenant_id, t.acl_id, t.source_id, t.languages, t.until
  ), crowded as (
    select k.tenant_id, k.acl_id from key k
     group by k.tenant_id, k.acl_id
    having sum(k.n) > 4 and sum(k.n) > 2 * sum(k.stays)
     order by sum(k.n) desc
     limit 100
  ), chosen as (
    select t.tenant_id, t.acl_id, t.scope_total_id
      from crowded c join pgrag_data.scope_total t on t.tenant_id = c.tenant_id and t.acl_id = c.acl_id
     order by t.tenant_id, t.acl_id, t.source_id, t.languages, t.until
     limit 100000
       for update of t skip locked
  ), taken as (
    delete from pgrag_data.scope_total t using chosen c
     where t.tenant_id = c.tenant_id and t.acl_id = c.acl_id and t.scope_total_id = c.scope_total_id
    returning t.*
  ), folded as (
    insert into pgrag_data.scope_total (tenant_id, acl_id, source_id, languages, until, documents, chunks, lexemes)
    select t.tenant_id, t.acl_id, t.source_id, t.languages, t.until, sum(t.documents), sum(t.chunks), sum(t.lexemes)
      from taken t
     where t.until > clock_timestamp() - interval '1 day'
     group by t.tenant_id, t.acl_id, t.source_id, t.languages, t.until
    having sum(t.documents) <> 0 or sum(t.chunks) <> 0 or sum(t.lexemes) <> 0
    returning 1
  )
  select (select count(*) from taken) - (select count(*) from folded) into v_rows;
  return v_rows;
end
$$;

-- Deletes what retired spaces still hold, so much at a time.
create or replace function pgrag_private.purge_retired_spaces() returns bigint
language plpgsql volatile parallel unsafe as $$
declare
  v_space pgrag_data.embedding_space;
  v_rows  bigint;
begin
  for v_space in select s.* from pgrag_data.embedding_space s where s.retired_at is not null
                    and exists (select from pgrag_data.chunk_vec v where v.tenant_id = s.tenant_id and v.space_id = s.space_id)
                  order by s.tenant_id, s.space_id for no key update skip locked loop
    with gone as (
      delete from pgrag_data.chunk_vec v
       where v.tenant_id = v_space.tenant_id and v.space_id = v_space.space_id
         and (v.revision_id, v.chunk_no) in (select x.revision_id, x.chunk_no from pgrag_data.chunk_vec x
                                              where x.tenant_id = v_space.tenant_id and x.space_id = v_space.space_id
                                              order by x.revision_id, x.chunk_no limit 20000)
      returning v.revision_id
    ), incomplete as (
      delete from pgrag_data.revision_space s using (select distinct g.revision_id from gone g) g
       where s.tenant_id = v_space.tenant_id and s.revision_id = g.revision_id and s.space_id = v_space.space_id
    )
    select count(*) from gone into v_rows;
    if v_rows > 0 then
      return v_rows;
    end if;
  end loop;
  return 0;
end
$$;

-- A dump carries changed_xid into a cluster where the number may lie in the future, and no snapshot would see the document for years.
create or replace function pgrag_private.renumber_documents(p_tenant_id bigint) returns bigint
language plpgsql volatile parallel unsafe as $$
declare
  v_rows bigint;
begin
  update pgrag_data.document d set changed_xid = pg_current_xact_id()
    from (select x.tenant_id, x.document_id from pgrag_data.document x
           where x.tenant_id = p_tenant_id and x.changed_xid > pg_current_xact_id()
           limit 20000 for no key update skip locked) f
   where d.tenant_id = f.tenant_id and d.document_id = f.document_id;
  get diagnostics v_rows = row_count;
  return v_rows;
end
$$;
