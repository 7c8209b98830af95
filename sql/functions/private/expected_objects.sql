-- What a new installation has, as pgrag_private.catalog() says it; % is the object. Made by "make expected"; do not edit.
create or replace function pgrag_private.expected_objects() returns table (check_name text, object text, item text)
language sql immutable parallel safe rows 1000 as $$
  select l.part[1], l.part[2], replace(l.part[3], '%', l.part[2])
    from string_to_table($objects$
default_privileges | functions of pgrag_engine | alter default privileges for role pgrag_engine revoke all on functions from public
default_privileges | functions of pgrag_owner | alter default privileges for role pgrag_owner revoke all on functions from public
default_privileges | types of pgrag_engine | alter default privileges for role pgrag_engine revoke all on types from public
default_privileges | types of pgrag_owner | alter default privileges for role pgrag_owner revoke all on types from public
function_attributes | pgrag.activate(text,text,text,boolean,text) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag.active_space(text) | alter function % stable parallel restricted security definer
function_attributes | pgrag.add_chunks(text,text,integer,text[],integer[],integer[],integer[],text[],integer[],text[],public.vector[]) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag.add_embeddings(text,text,text,integer,public.vector[]) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag.add_signing_key(text,bytea,text,text) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag.authenticate(text) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag.build_space(text,text) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag.calibrate() | alter function % volatile parallel unsafe security definer
function_attributes | pgrag.can_read(text,text,text) | alter function % stable parallel restricted security definer
function_attributes | pgrag.delete_document(text,text) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag.doctor() | alter function % stable parallel restricted security definer
function_attributes | pgrag.drop_membership(text,text) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag.drop_principal(text) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag.excerpt(text,timestamp with time zone,text) | alter function % stable parallel restricted security definer
function_attributes | pgrag.index_status() | alter function % stable parallel unsafe security definer
function_attributes | pgrag.list_documents(text,text) | alter function % stable parallel restricted security definer
function_attributes | pgrag.list_memberships(text) | alter function % stable parallel restricted security definer
function_attributes | pgrag.list_principals(text) | alter function % stable parallel restricted security definer
function_attributes | pgrag.list_revisions(text,text,text) | alter function % stable parallel restricted security definer
function_attributes | pgrag.list_signing_keys() | alter function % stable parallel restricted security definer
function_attributes | pgrag.list_sources(text) | alter function % stable parallel restricted security definer
function_attributes | pgrag.list_spaces(text) | alter function % stable parallel restricted security definer
function_attributes | pgrag.list_tenants() | alter function % stable parallel restricted security definer
function_attributes | pgrag.maintain(interval) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag.missing_embeddings(text,integer,boolean) | alter function % stable parallel unsafe security definer
function_attributes | pgrag.next_space(text) | alter function % stable parallel restricted security definer
function_attributes | pgrag.packet(text,integer,text,public.vector,text,text,timestamp with time zone,jsonb,integer,double precision,integer,text,integer,boolean,text,text[],public.vector[],integer,integer,text,text,text[],text) | alter function % stable parallel restricted security definer
function_attributes | pgrag.packet_json(jsonb,text) | alter function % stable parallel restricted security definer
function_attributes | pgrag.put_membership(text,text) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag.put_principal(text,text) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag.put_source(text,text,text[],text) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag.put_space(text,text,text,text,integer,text,text,text,text,text,text,text) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag.put_tenant(text,text) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag.retire_signing_key(text) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag.retire_space(text,text) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag.rollback(text,text,text,text) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag.search(text,integer,text,public.vector,text,text,timestamp with time zone,jsonb,integer,double precision,text,text[],public.vector[],integer,integer,text,text,text[],text) | alter function % stable parallel restricted security definer
function_attributes | pgrag.search_json(jsonb,text) | alter function % stable parallel restricted security definer
function_attributes | pgrag.set_access(text,text[],text) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag.space_status(text) | alter function % stable parallel unsafe security definer
function_attributes | pgrag.stage_revision(text,text,text,text,text,text,text,text[],date,timestamp with time zone,timestamp with time zone,text,text,text,text,int4range[],jsonb) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag.status() | alter function % stable parallel restricted security definer
function_attributes | pgrag.switch_space(text,text) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag.validate_reply(jsonb,jsonb,text) | alter function % stable parallel restricted security definer
function_attributes | pgrag.verify_revision(text,text,integer) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag.version() | alter function % immutable parallel safe security invoker
function_attributes | pgrag.whoami(text) | alter function % stable parallel restricted security definer
function_attributes | pgrag.writer_source(text) | alter function % stable parallel restricted security definer
function_attributes | pgrag_private.access_state(pgrag_private.principal) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.acl_of(bigint,text[]) | alter function % volatile parallel unsafe security invoker
function_attributes | pgrag_private.block_effort(integer) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.block_least(integer) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.block_recall(pgrag_data.dense_block,integer) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.block_state() | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.bm25_idf(double precision,double precision) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.bm25_norm() | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.browse_revisions() | alter function % stable parallel restricted security definer
function_attributes | pgrag_private.browse_tenant() | alter function % stable parallel restricted security definer
function_attributes | pgrag_private.build_packet(pgrag_private.principal,text,timestamp with time zone,jsonb,integer,text,integer,boolean) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.call_maintain() | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.catalog() | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.check_document(text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.check_embedding(bigint,text,public.vector) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.check_filter(jsonb) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.check_json_request(jsonb,text[]) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.check_metadata(jsonb,text,text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.check_name(text,text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.check_search(pgrag_private.search_request) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.chunk_id_lookup(text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.closure(bigint,bigint) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.compare_vectors(bigint,bigint[],bigint,public.vector,integer,text[],tsquery[]) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.compared_revisions(pgrag_private.search_scope,pgrag_private.dense_plan) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.copy_to_block(pgrag_data.dense_block) | alter function % volatile parallel unsafe security invoker
function_attributes | pgrag_private.corpus_state(pgrag_private.principal,timestamp with time zone) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.count_document(pgrag_data.document,integer) | alter function % volatile parallel unsafe security invoker
function_attributes | pgrag_private.create_block_table(bigint,integer) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag_private.current_principal(text,text[]) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.decode_base64url(text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.decode_part(text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.default_threshold(text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.dense_lane(pgrag_private.search_scope,pgrag_private.dense_plan,bigint,public.vector,integer,text[],tsquery[]) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.dense_plan(pgrag_private.search_scope,pgrag_data.embedding_space,integer,text) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.describe_chunk(bigint,bigint,integer) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.described_space(bigint,bigint) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.deserves_block(bigint,bigint,bigint,bigint) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.distinct_words(text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.doctor_access() | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.doctor_blocks() | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.doctor_catalog() | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.doctor_checks() | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.doctor_data() | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.doctor_server() | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.drop_block_table(bigint) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag_private.each_slot(integer,text,text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.effective_revision(bigint,bigint,timestamp with time zone) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.embedding_faults(bigint,bigint,bigint,integer,integer) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.estimate_df(pgrag_private.search_scope,bigint[],integer[],text[],text[]) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.expected_catalog() | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.expected_objects() | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.facet_keys(bigint,text,text,text,text[],jsonb) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.facet_keys_any(bigint,text,text[]) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.filter_date(jsonb,text) | alter function % stable parallel safe security invoker
function_attributes | pgrag_private.filter_values(jsonb,text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.filtered_revisions(bigint,bigint[],timestamp with time zone,jsonb,boolean) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.find_document(pgrag_data.source,text) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.find_principal(bigint,text) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.find_revision(pgrag_data.document,text) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.find_source(pgrag_private.principal,text) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.find_space(bigint,text) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.find_tenant(text) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.finding(text,text,text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.finding_of_access(pgrag_private.principal,text,bigint) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.fingerprint(text[]) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.fold_scope_totals() | alter function % volatile parallel unsafe security invoker
function_attributes | pgrag_private.function_bodies() | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.half_of(pgrag_data.embedding_space,public.vector) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.hmac_pad(bytea,integer) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.index_block_table(bigint) | alter function % volatile parallel unsafe security definer
function_attributes | pgrag_private.index_finds(bigint,pgrag_private.lexical_plan,integer) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.installed_bodies() | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.internal_mac(text,text) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.is_blank(text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.is_language(text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.is_sayable(text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.json_texts(jsonb) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.ledger_gaps(bigint) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.lexeme_count(tsvector) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.lexeme_keys(bigint,text[]) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.lexeme_query(text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.lexical_bound(pgrag_private.lexical_plan[]) | alter function % stable parallel safe security invoker
function_attributes | pgrag_private.lexical_lane(bigint,pgrag_private.lexical_plan,integer,bigint[],integer[]) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.lexical_plans(pgrag_private.search_scope,text[],text[],text[],boolean) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.makes_a_difference(text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.matched_terms(bigint,bigint,integer,pgrag_private.lexical_plan[],double precision[],double precision[]) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.missing_in_space(bigint,bigint) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.negations() | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.not_found(text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.numbers() | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.pairs_of(text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.parse_question(text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.permitted_acls(bigint,bigint) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.phrase_lexemes(text,text[]) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.phrase_query(text,text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.phrases_occur(pgrag_private.search_scope,text[],boolean) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.pick(bigint,pgrag_private.ranked_chunk[],integer,integer,integer) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.pinned_settings(boolean) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.plain_quote(text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.purge_retired_spaces() | alter function % volatile parallel unsafe security invoker
function_attributes | pgrag_private.put_embeddings(pgrag_data.revision,pgrag_data.embedding_space,integer,public.vector[]) | alter function % volatile parallel unsafe security invoker
function_attributes | pgrag_private.question_condition(text,text[],text[]) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.random_secret() | alter function % volatile parallel safe security invoker
function_attributes | pgrag_private.renumber_documents(bigint) | alter function % volatile parallel unsafe security invoker
function_attributes | pgrag_private.retrieve(pgrag_private.principal,pgrag_private.search_request) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.retrieve_json(pgrag_private.principal,jsonb,integer) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.scope(bigint,bigint,timestamp with time zone,jsonb) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.scope_first_limit() | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.scope_languages(pgrag_private.scope_part[]) | alter function % stable parallel safe security invoker
function_attributes | pgrag_private.score(double precision) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.seal(pgrag_private.principal,jsonb) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.search_blocks(pgrag_private.search_scope,pgrag_private.dense_plan,public.vector,integer,text[],tsquery[]) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.search_scope(bigint,bigint,pgrag_private.search_request,boolean) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.similarity(tsvector,tsvector) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.spaced_words(text,text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.split_joined(text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.standing_revisions(bigint,bigint) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.switch_revision(pgrag_private.principal,pgrag_data.document,pgrag_data.revision,text,text,boolean) | alter function % volatile parallel unsafe security invoker
function_attributes | pgrag_private.text_config(text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.tf_slot() | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.to_lexemes(text,text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.transaction_mark() | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.unspaced_pairs(text) | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.unspaced_run() | alter function % immutable parallel safe security invoker
function_attributes | pgrag_private.utc(timestamp with time zone) | alter function % stable parallel safe security invoker
function_attributes | pgrag_private.verify_token(text) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.visible_revisions(bigint,bigint[],timestamp with time zone,jsonb,boolean) | alter function % stable parallel restricted security invoker
function_attributes | pgrag_private.visible_row(text,text,boolean) | alter function % immutable parallel safe security invoker
function_settings | DateStyle of pgrag_private.catalog() | alter function pgrag_private.catalog() set DateStyle to 'ISO, YMD'
function_settings | DateStyle of pgrag_private.function_bodies() | alter function pgrag_private.function_bodies() set DateStyle to 'ISO, YMD'
function_settings | IntervalStyle of pgrag_private.catalog() | alter function pgrag_private.catalog() set IntervalStyle to 'iso_8601'
function_settings | IntervalStyle of pgrag_private.function_bodies() | alter function pgrag_private.function_bodies() set IntervalStyle to 'iso_8601'
function_settings | enable_bitmapscan of pgrag_private.search_blocks(pgrag_private.search_scope,pgrag_private.dense_plan,public.vector,integer,text[],tsquery[]) | alter function pgrag_private.search_blocks(pgrag_private.search_scope,pgrag_private.dense_plan,public.vector,integer,text[],tsquery[]) set enable_bitmapscan to 'off'
function_settings | enable_hashjoin of pgrag_private.compare_vectors(bigint,bigint[],bigint,public.vector,integer,text[],tsquery[]) | alter function pgrag_private.compare_vectors(bigint,bigint[],bigint,public.vector,integer,text[],tsquery[]) set enable_hashjoin to 'off'
function_settings | enable_mergejoin of pgrag_private.compare_vectors(bigint,bigint[],bigint,public.vector,integer,text[],tsquery[]) | alter function pgrag_private.compare_vectors(bigint,bigint[],bigint,public.vector,integer,text[],tsquery[]) set enable_mergejoin to 'off'
function_settings | enable_seqscan of pgrag_private.compare_vectors(bigint,bigint[],bigint,public.vector,integer,text[],tsquery[]) | alter function pgrag_private.compare_vectors(bigint,bigint[],bigint,public.vector,integer,text[],tsquery[]) set enable_seqscan to 'off'
function_settings | enable_seqscan of pgrag_private.compared_revisions(pgrag_private.search_scope,pgrag_private.dense_plan) | alter function pgrag_private.compared_revisions(pgrag_private.search_scope,pgrag_private.dense_plan) set enable_seqscan to 'off'
function_settings | enable_seqscan of pgrag_private.dense_plan(pgrag_private.search_scope,pgrag_data.embedding_space,integer,text) | alter function pgrag_private.dense_plan(pgrag_private.search_scope,pgrag_data.embedding_space,integer,text) set enable_seqscan to 'off'
function_settings | enable_seqscan of pgrag_private.index_finds(bigint,pgrag_private.lexical_plan,integer) | alter function pgrag_private.index_finds(bigint,pgrag_private.lexical_plan,integer) set enable_seqscan to 'off'
function_settings | enable_seqscan of pgrag_private.lexical_lane(bigint,pgrag_private.lexical_plan,integer,bigint[],integer[]) | alter function pgrag_private.lexical_lane(bigint,pgrag_private.lexical_plan,integer,bigint[],integer[]) set enable_seqscan to 'off'
function_settings | enable_seqscan of pgrag_private.phrases_occur(pgrag_private.search_scope,text[],boolean) | alter function pgrag_private.phrases_occur(pgrag_private.search_scope,text[],boolean) set enable_seqscan to 'off'
function_settings | enable_seqscan of pgrag_private.search_blocks(pgrag_private.search_scope,pgrag_private.dense_plan,public.vector,integer,text[],tsquery[]) | alter function pgrag_private.search_blocks(pgrag_private.search_scope,pgrag_private.dense_plan,public.vector,integer,text[],tsquery[]) set enable_seqscan to 'off'
function_settings | enable_seqscan of pgrag_private.search_scope(bigint,bigint,pgrag_private.search_request,boolean) | alter function pgrag_private.search_scope(bigint,bigint,pgrag_private.search_request,boolean) set enable_seqscan to 'off'
function_settings | enable_seqscan of pgrag_private.visible_revisions(bigint,bigint[],timestamp with time zone,jsonb,boolean) | alter function pgrag_private.visible_revisions(bigint,bigint[],timestamp with time zone,jsonb,boolean) set enable_seqscan to 'off'
function_settings | enable_sort of pgrag_private.estimate_df(pgrag_private.search_scope,bigint[],integer[],text[],text[]) | alter function pgrag_private.estimate_df(pgrag_private.search_scope,bigint[],integer[],text[],text[]) set enable_sort to 'off'
function_settings | enable_sort of pgrag_private.search_blocks(pgrag_private.search_scope,pgrag_private.dense_plan,public.vector,integer,text[],tsquery[]) | alter function pgrag_private.search_blocks(pgrag_private.search_scope,pgrag_private.dense_plan,public.vector,integer,text[],tsquery[]) set enable_sort to 'off'
function_settings | lock_timeout of pgrag_private.drop_block_table(bigint) | alter function pgrag_private.drop_block_table(bigint) set lock_timeout to '20ms'
function_settings | plan_cache_mode of pgrag_private.copy_to_block(pgrag_data.dense_block) | alter function pgrag_private.copy_to_block(pgrag_data.dense_block) set plan_cache_mode to 'force_custom_plan'
function_settings | plan_cache_mode of pgrag_private.current_principal(text,text[]) | alter function pgrag_private.current_principal(text,text[]) set plan_cache_mode to 'force_generic_plan'
function_settings | plan_cache_mode of pgrag_private.estimate_df(pgrag_private.search_scope,bigint[],integer[],text[],text[]) | alter function pgrag_private.estimate_df(pgrag_private.search_scope,bigint[],integer[],text[],text[]) set plan_cache_mode to 'force_custom_plan'
function_settings | plan_cache_mode of pgrag_private.filtered_revisions(bigint,bigint[],timestamp with time zone,jsonb,boolean) | alter function pgrag_private.filtered_revisions(bigint,bigint[],timestamp with time zone,jsonb,boolean) set plan_cache_mode to 'force_custom_plan'
function_settings | plan_cache_mode of pgrag_private.index_finds(bigint,pgrag_private.lexical_plan,integer) | alter function pgrag_private.index_finds(bigint,pgrag_private.lexical_plan,integer) set plan_cache_mode to 'force_custom_plan'
function_settings | plan_cache_mode of pgrag_private.phrases_occur(pgrag_private.search_scope,text[],boolean) | alter function pgrag_private.phrases_occur(pgrag_private.search_scope,text[],boolean) set plan_cache_mode to 'force_custom_plan'
function_settings | plan_cache_mode of pgrag_private.retrieve(pgrag_private.principal,pgrag_private.search_request) | alter function pgrag_private.retrieve(pgrag_private.principal,pgrag_private.search_request) set plan_cache_mode to 'force_generic_plan'
function_settings | quote_all_identifiers of pgrag_private.catalog() | alter function pgrag_private.catalog() set quote_all_identifiers to 'off'
function_settings | quote_all_identifiers of pgrag_private.function_bodies() | alter function pgrag_private.function_bodies() set quote_all_identifiers to 'off'
function_settings | work_mem of pgrag_private.index_finds(bigint,pgrag_private.lexical_plan,integer) | alter function pgrag_private.index_finds(bigint,pgrag_private.lexical_plan,integer) set work_mem to '32MB'
function_settings | work_mem of pgrag_private.lexical_lane(bigint,pgrag_private.lexical_plan,integer,bigint[],integer[]) | alter function pgrag_private.lexical_lane(bigint,pgrag_private.lexical_plan,integer,bigint[],integer[]) set work_mem to '32MB'
function_settings | work_mem of pgrag_private.phrases_occur(pgrag_private.search_scope,text[],boolean) | alter function pgrag_private.phrases_occur(pgrag_private.search_scope,text[],boolean) set work_mem to '32MB'
function_settings | work_mem of pgrag_private.search_blocks(pgrag_private.search_scope,pgrag_private.dense_plan,public.vector,integer,text[],tsquery[]) | alter function pgrag_private.search_blocks(pgrag_private.search_scope,pgrag_private.dense_plan,public.vector,integer,text[],tsquery[]) set work_mem to '32MB'
functions | pgrag.activate(text,text,text,boolean,text) | pgrag.activate(p_document text, p_revision text, p_expected_active text DEFAULT NULL::text, p_restore boolean DEFAULT false, p_source text DEFAULT NULL::text) returns boolean
functions | pgrag.active_space(text) | pgrag.active_space(p_token text DEFAULT NULL::text) returns TABLE(space text, model text, model_revision text, dimension integer, metric text, normalisation text, preprocessing text, query_prefix text, document_prefix text, storage text, zero_vectors text)
functions | pgrag.add_chunks(text,text,integer,text[],integer[],integer[],integer[],text[],integer[],text[],public.vector[]) | pgrag.add_chunks(p_document text, p_revision text, p_first integer, p_texts text[], p_starts integer[], p_ends integer[], p_tokens integer[], p_sections text[] DEFAULT NULL::text[], p_pages integer[] DEFAULT NULL::integer[], p_languages text[] DEFAULT NULL::text[], p_embeddings public.vector[] DEFAULT NULL::public.vector[]) returns integer
functions | pgrag.add_embeddings(text,text,text,integer,public.vector[]) | pgrag.add_embeddings(p_document text, p_revision text, p_space text, p_first integer, p_embeddings public.vector[]) returns TABLE(complete boolean, missing integer)
functions | pgrag.add_signing_key(text,bytea,text,text) | pgrag.add_signing_key(p_kid text, p_secret bytea, p_issuer text, p_audience text) returns void
functions | pgrag.authenticate(text) | pgrag.authenticate(p_token text) returns void
functions | pgrag.build_space(text,text) | pgrag.build_space(p_tenant text, p_space text) returns boolean
functions | pgrag.calibrate() | % returns TABLE(part text, microseconds double precision, measured_at timestamp with time zone)
functions | pgrag.can_read(text,text,text) | pgrag.can_read(p_source text, p_document text, p_token text DEFAULT NULL::text) returns boolean
functions | pgrag.delete_document(text,text) | pgrag.delete_document(p_document text, p_source text DEFAULT NULL::text) returns boolean
functions | pgrag.doctor() | % returns TABLE(check_name text, severity text, object text, finding text, remedy text)
functions | pgrag.drop_membership(text,text) | pgrag.drop_membership(p_group text, p_member text) returns void
functions | pgrag.drop_principal(text) | pgrag.drop_principal(p_name text) returns void
functions | pgrag.excerpt(text,timestamp with time zone,text) | pgrag.excerpt(p_chunk_id text, p_as_of timestamp with time zone DEFAULT NULL::timestamp with time zone, p_token text DEFAULT NULL::text) returns jsonb
functions | pgrag.index_status() | % returns TABLE(tenant text, space text, class text, chunks bigint, state text, vectors bigint, loose bigint, retired bigint, bytes bigint)
functions | pgrag.list_documents(text,text) | pgrag.list_documents(p_source text DEFAULT NULL::text, p_token text DEFAULT NULL::text) returns TABLE(source text, document text, active_revision text, readers text[], deleted_at timestamp with time zone)
functions | pgrag.list_memberships(text) | pgrag.list_memberships(p_token text DEFAULT NULL::text) returns TABLE("group" text, member text, kind text)
functions | pgrag.list_principals(text) | pgrag.list_principals(p_token text DEFAULT NULL::text) returns TABLE(name text, kind text, created_at timestamp with time zone)
functions | pgrag.list_revisions(text,text,text) | pgrag.list_revisions(p_document text, p_source text DEFAULT NULL::text, p_token text DEFAULT NULL::text) returns TABLE(revision text, state text, title text, effective_from timestamp with time zone, effective_to timestamp with time zone, chunks integer, created_at timestamp with time zone, verified_at timestamp with time zone, activated_at timestamp with time zone)
functions | pgrag.list_signing_keys() | % returns TABLE(kid text, issuer text, audience text, created_at timestamp with time zone, retired_at timestamp with time zone)
functions | pgrag.list_sources(text) | pgrag.list_sources(p_tenant text) returns TABLE(source text, trust text, processors text[], created_at timestamp with time zone)
functions | pgrag.list_spaces(text) | pgrag.list_spaces(p_tenant text) returns TABLE(space text, active boolean, model text, model_revision text, dimension integer, metric text, normalisation text, preprocessing text, query_prefix text, document_prefix text, storage text, zero_vectors text)
functions | pgrag.list_tenants() | % returns TABLE(tenant text, name text, active_space text, created_at timestamp with time zone)
functions | pgrag.maintain(interval) | pgrag.maintain(p_keep interval DEFAULT 'PT5M'::interval) returns TABLE(action text, block_id bigint, rows bigint, remaining boolean, note text)
functions | pgrag.missing_embeddings(text,integer,boolean) | pgrag.missing_embeddings(p_space text, p_limit integer DEFAULT 256, p_retained boolean DEFAULT false) returns TABLE(document text, revision text, chunk_no integer, title text, section text, language text, text text)
functions | pgrag.next_space(text) | pgrag.next_space(p_token text DEFAULT NULL::text) returns TABLE(space text, model text, model_revision text, dimension integer, metric text, normalisation text, preprocessing text, query_prefix text, document_prefix text, storage text, zero_vectors text)
functions | pgrag.packet(text,integer,text,public.vector,text,text,timestamp with time zone,jsonb,integer,double precision,integer,text,integer,boolean,text,text[],public.vector[],integer,integer,text,text,text[],text) | pgrag.packet(p_question text, p_k integer DEFAULT 8, p_mode text DEFAULT 'hybrid'::text, p_embedding public.vector DEFAULT NULL::public.vector, p_space text DEFAULT NULL::text, p_fusion text DEFAULT 'convex'::text, p_as_of timestamp with time zone DEFAULT NULL::timestamp with time zone, p_filter jsonb DEFAULT NULL::jsonb, p_candidates integer DEFAULT 100, p_threshold double precision DEFAULT NULL::double precision, p_budget integer DEFAULT 8000, p_budget_unit text DEFAULT 'characters'::text, p_reserve integer DEFAULT 0, p_strict boolean DEFAULT false, p_token text DEFAULT NULL::text, p_probes text[] DEFAULT NULL::text[], p_probe_embeddings public.vector[] DEFAULT NULL::public.vector[], p_per_document integer DEFAULT NULL::integer, p_per_source integer DEFAULT NULL::integer, p_isolation text DEFAULT 'auto'::text, p_profile text DEFAULT 'normal'::text, p_order text[] DEFAULT NULL::text[], p_reranker text DEFAULT NULL::text) returns jsonb
functions | pgrag.packet_json(jsonb,text) | pgrag.packet_json(p_request jsonb, p_token text DEFAULT NULL::text) returns jsonb
functions | pgrag.put_membership(text,text) | pgrag.put_membership(p_group text, p_member text) returns void
functions | pgrag.put_principal(text,text) | pgrag.put_principal(p_name text, p_kind text) returns void
functions | pgrag.put_source(text,text,text[],text) | pgrag.put_source(p_tenant text, p_source text, p_processors text[] DEFAULT NULL::text[], p_trust text DEFAULT NULL::text) returns void
functions | pgrag.put_space(text,text,text,text,integer,text,text,text,text,text,text,text) | pgrag.put_space(p_tenant text, p_space text, p_model text, p_model_revision text, p_dimension integer, p_metric text DEFAULT 'cosine'::text, p_normalisation text DEFAULT 'unit'::text, p_preprocessing text DEFAULT ''::text, p_query_prefix text DEFAULT ''::text, p_document_prefix text DEFAULT ''::text, p_storage text DEFAULT 'float'::text, p_zero_vectors text DEFAULT 'refuse'::text) returns void
functions | pgrag.put_tenant(text,text) | pgrag.put_tenant(p_tenant text, p_name text DEFAULT NULL::text) returns void
functions | pgrag.retire_signing_key(text) | pgrag.retire_signing_key(p_kid text) returns void
functions | pgrag.retire_space(text,text) | pgrag.retire_space(p_tenant text, p_space text) returns boolean
functions | pgrag.rollback(text,text,text,text) | pgrag.rollback(p_document text, p_revision text DEFAULT NULL::text, p_expected_active text DEFAULT NULL::text, p_source text DEFAULT NULL::text) returns text
functions | pgrag.search(text,integer,text,public.vector,text,text,timestamp with time zone,jsonb,integer,double precision,text,text[],public.vector[],integer,integer,text,text,text[],text) | pgrag.search(p_question text, p_k integer DEFAULT 10, p_mode text DEFAULT 'hybrid'::text, p_embedding public.vector DEFAULT NULL::public.vector, p_space text DEFAULT NULL::text, p_fusion text DEFAULT 'convex'::text, p_as_of timestamp with time zone DEFAULT NULL::timestamp with time zone, p_filter jsonb DEFAULT NULL::jsonb, p_candidates integer DEFAULT 100, p_threshold double precision DEFAULT NULL::double precision, p_token text DEFAULT NULL::text, p_probes text[] DEFAULT NULL::text[], p_probe_embeddings public.vector[] DEFAULT NULL::public.vector[], p_per_document integer DEFAULT NULL::integer, p_per_source integer DEFAULT NULL::integer, p_isolation text DEFAULT 'auto'::text, p_profile text DEFAULT 'normal'::text, p_order text[] DEFAULT NULL::text[], p_reranker text DEFAULT NULL::text) returns TABLE(rank integer, score double precision, relevance double precision, source text, document text, revision text, active boolean, title text, section text, page integer, language text, span_start integer, span_end integer, effective_from timestamp with time zone, effective_to timestamp with time zone, ingested_at timestamp with time zone, trust text, lexical_rank integer, lexical_score double precision, dense_rank integer, dense_score double precision, chunk_id text, text text, status text, complete boolean, complete_reason text, matched_terms jsonb, duplicates jsonb, probe integer)
functions | pgrag.search_json(jsonb,text) | pgrag.search_json(p_request jsonb, p_token text DEFAULT NULL::text) returns jsonb
functions | pgrag.set_access(text,text[],text) | pgrag.set_access(p_document text, p_readers text[], p_source text DEFAULT NULL::text) returns boolean
functions | pgrag.space_status(text) | pgrag.space_status(p_tenant text) returns TABLE(space text, state text, documents bigint, chunks bigint, missing bigint)
functions | pgrag.stage_revision(text,text,text,text,text,text,text,text[],date,timestamp with time zone,timestamp with time zone,text,text,text,text,int4range[],jsonb) | pgrag.stage_revision(p_document text, p_body text, p_title text DEFAULT ''::text, p_language text DEFAULT 'en'::text, p_revision text DEFAULT NULL::text, p_product text DEFAULT NULL::text, p_version text DEFAULT NULL::text, p_tags text[] DEFAULT '{}'::text[], p_dated date DEFAULT NULL::date, p_effective_from timestamp with time zone DEFAULT NULL::timestamp with time zone, p_effective_to timestamp with time zone DEFAULT NULL::timestamp with time zone, p_parser text DEFAULT 'text'::text, p_chunker text DEFAULT ''::text, p_tokenizer text DEFAULT ''::text, p_space text DEFAULT NULL::text, p_skips int4range[] DEFAULT '{}'::int4range[], p_metadata jsonb DEFAULT '{}'::jsonb) returns TABLE(revision text, state text, created boolean)
functions | pgrag.status() | % returns jsonb
functions | pgrag.switch_space(text,text) | pgrag.switch_space(p_tenant text, p_space text) returns boolean
functions | pgrag.validate_reply(jsonb,jsonb,text) | pgrag.validate_reply(p_packet jsonb, p_reply jsonb, p_token text DEFAULT NULL::text) returns jsonb
functions | pgrag.verify_revision(text,text,integer) | pgrag.verify_revision(p_document text, p_revision text, p_expected_chunks integer) returns TABLE(state text, chunks integer, faults text[])
functions | pgrag.version() | % returns text
functions | pgrag.whoami(text) | pgrag.whoami(p_token text DEFAULT NULL::text) returns TABLE(tenant text, subject text, kind text, source text, known boolean, groups text[], expires_at timestamp with time zone)
functions | pgrag.writer_source(text) | pgrag.writer_source(p_token text DEFAULT NULL::text) returns TABLE(tenant text, source text, trust text, processors text[])
functions | pgrag_private.access_state(pgrag_private.principal) | pgrag_private.access_state(p_principal pgrag_private.principal) returns text
functions | pgrag_private.acl_of(bigint,text[]) | pgrag_private.acl_of(p_tenant_id bigint, p_readers text[]) returns bigint
functions | pgrag_private.block_effort(integer) | pgrag_private.block_effort(p_requested integer) returns integer
functions | pgrag_private.block_least(integer) | pgrag_private.block_least(p_dimension integer) returns bigint
functions | pgrag_private.block_recall(pgrag_data.dense_block,integer) | pgrag_private.block_recall(p_block pgrag_data.dense_block, p_questions integer) returns double precision
functions | pgrag_private.block_state() | % returns TABLE(tenant_id bigint, space_id bigint, active boolean, dimension integer, acl_id bigint, chunks bigint, largest bigint, enough bigint, block_id bigint, vectors bigint, delta_id bigint, delta_vectors bigint, loose bigint, retired bigint, building boolean)
functions | pgrag_private.bm25_idf(double precision,double precision) | pgrag_private.bm25_idf(p_chunks double precision, p_df double precision) returns double precision
functions | pgrag_private.bm25_norm() | % returns text
functions | pgrag_private.browse_revisions() | % returns bigint[]
functions | pgrag_private.browse_tenant() | % returns bigint
functions | pgrag_private.build_packet(pgrag_private.principal,text,timestamp with time zone,jsonb,integer,text,integer,boolean) | pgrag_private.build_packet(p_principal pgrag_private.principal, p_question text, p_as_of timestamp with time zone, p_found jsonb, p_budget integer, p_budget_unit text, p_reserve integer, p_strict boolean) returns jsonb
functions | pgrag_private.call_maintain() | % returns text
functions | pgrag_private.catalog() | % returns TABLE(check_name text, object text, item text, undo text)
functions | pgrag_private.check_document(text) | pgrag_private.check_document(p_document text) returns text
functions | pgrag_private.check_embedding(bigint,text,public.vector) | pgrag_private.check_embedding(p_tenant_id bigint, p_space text, p_embedding public.vector) returns pgrag_data.embedding_space
functions | pgrag_private.check_filter(jsonb) | pgrag_private.check_filter(p_filter jsonb) returns void
functions | pgrag_private.check_json_request(jsonb,text[]) | pgrag_private.check_json_request(p_request jsonb, VARIADIC p_fields text[]) returns void
functions | pgrag_private.check_metadata(jsonb,text,text) | pgrag_private.check_metadata(p_metadata jsonb, p_code text, p_what text) returns void
functions | pgrag_private.check_name(text,text) | pgrag_private.check_name(p_what text, p_name text) returns text
functions | pgrag_private.check_search(pgrag_private.search_request) | pgrag_private.check_search(p_search pgrag_private.search_request) returns void
functions | pgrag_private.chunk_id_lookup(text) | pgrag_private.chunk_id_lookup(p_row text) returns text
functions | pgrag_private.closure(bigint,bigint) | pgrag_private.closure(p_tenant_id bigint, p_reader_id bigint) returns SETOF bigint
functions | pgrag_private.compare_vectors(bigint,bigint[],bigint,public.vector,integer,text[],tsquery[]) | pgrag_private.compare_vectors(p_tenant_id bigint, p_revisions bigint[], p_space_id bigint, p_embedding public.vector, p_limit integer, p_languages text[], p_conditions tsquery[]) returns TABLE(revision_id bigint, chunk_no integer, distance double precision)
functions | pgrag_private.compared_revisions(pgrag_private.search_scope,pgrag_private.dense_plan) | pgrag_private.compared_revisions(p_scope pgrag_private.search_scope, p_plan pgrag_private.dense_plan) returns bigint[]
functions | pgrag_private.copy_to_block(pgrag_data.dense_block) | pgrag_private.copy_to_block(p_block pgrag_data.dense_block, OUT rows bigint, OUT copied_to bigint) returns record
functions | pgrag_private.corpus_state(pgrag_private.principal,timestamp with time zone) | pgrag_private.corpus_state(p_principal pgrag_private.principal, p_as_of timestamp with time zone) returns text
functions | pgrag_private.count_document(pgrag_data.document,integer) | pgrag_private.count_document(p_document pgrag_data.document, p_sign integer) returns void
functions | pgrag_private.create_block_table(bigint,integer) | pgrag_private.create_block_table(p_block_id bigint, p_dimension integer) returns oid
functions | pgrag_private.current_principal(text,text[]) | pgrag_private.current_principal(p_token text, VARIADIC p_kinds text[]) returns pgrag_private.principal
functions | pgrag_private.decode_base64url(text) | pgrag_private.decode_base64url(p_part text) returns bytea
functions | pgrag_private.decode_part(text) | pgrag_private.decode_part(p_part text) returns jsonb
functions | pgrag_private.default_threshold(text) | pgrag_private.default_threshold(p_mode text) returns double precision
functions | pgrag_private.dense_lane(pgrag_private.search_scope,pgrag_private.dense_plan,bigint,public.vector,integer,text[],tsquery[]) | pgrag_private.dense_lane(p_scope pgrag_private.search_scope, p_plan pgrag_private.dense_plan, p_space_id bigint, p_embedding public.vector, p_limit integer, p_languages text[], p_conditions tsquery[]) returns TABLE(revision_id bigint, chunk_no integer, chunk_id bytea, cosine double precision, fell_back boolean)
functions | pgrag_private.dense_plan(pgrag_private.search_scope,pgrag_data.embedding_space,integer,text) | pgrag_private.dense_plan(p_scope pgrag_private.search_scope, p_space pgrag_data.embedding_space, p_limit integer, p_isolation text) returns pgrag_private.dense_plan
functions | pgrag_private.describe_chunk(bigint,bigint,integer) | pgrag_private.describe_chunk(p_tenant_id bigint, p_revision_id bigint, p_chunk_no integer) returns TABLE(described jsonb)
functions | pgrag_private.described_space(bigint,bigint) | pgrag_private.described_space(p_tenant_id bigint, p_space_id bigint) returns TABLE(space text, model text, model_revision text, dimension integer, metric text, normalisation text, preprocessing text, query_prefix text, document_prefix text, storage text, zero_vectors text)
functions | pgrag_private.deserves_block(bigint,bigint,bigint,bigint) | pgrag_private.deserves_block(p_chunks bigint, p_largest bigint, p_least bigint, p_acl_id bigint) returns boolean
functions | pgrag_private.distinct_words(text) | pgrag_private.distinct_words(p_text text) returns tsvector
functions | pgrag_private.doctor_access() | % returns SETOF pgrag_private.doctor_finding
functions | pgrag_private.doctor_blocks() | % returns SETOF pgrag_private.doctor_finding
functions | pgrag_private.doctor_catalog() | % returns SETOF pgrag_private.doctor_finding
functions | pgrag_private.doctor_checks() | % returns TABLE(place integer, check_name text, severity text, wanting text, beside text, well text)
functions | pgrag_private.doctor_data() | % returns SETOF pgrag_private.doctor_finding
functions | pgrag_private.doctor_server() | % returns SETOF pgrag_private.doctor_finding
functions | pgrag_private.drop_block_table(bigint) | pgrag_private.drop_block_table(p_block_id bigint) returns boolean
functions | pgrag_private.each_slot(integer,text,text) | pgrag_private.each_slot(p_slots integer, p_piece text, p_between text) returns text
functions | pgrag_private.effective_revision(bigint,bigint,timestamp with time zone) | pgrag_private.effective_revision(p_tenant_id bigint, p_document_id bigint, p_at timestamp with time zone) returns TABLE(revision_id bigint)
functions | pgrag_private.embedding_faults(bigint,bigint,bigint,integer,integer) | pgrag_private.embedding_faults(p_tenant_id bigint, p_revision_id bigint, p_space_id bigint, p_first integer, p_last integer) returns text[]
functions | pgrag_private.estimate_df(pgrag_private.search_scope,bigint[],integer[],text[],text[]) | pgrag_private.estimate_df(p_scope pgrag_private.search_scope, p_revisions bigint[], p_chunk_counts integer[], p_languages text[], p_lexemes text[]) returns TABLE(lexeme text, df double precision, seen boolean)
functions | pgrag_private.expected_catalog() | % returns TABLE(check_name text, object text, item text)
functions | pgrag_private.expected_objects() | % returns TABLE(check_name text, object text, item text)
functions | pgrag_private.facet_keys(bigint,text,text,text,text[],jsonb) | pgrag_private.facet_keys(p_tenant_id bigint, p_language text, p_product text, p_version text, p_tags text[], p_metadata jsonb) returns bigint[]
functions | pgrag_private.facet_keys_any(bigint,text,text[]) | pgrag_private.facet_keys_any(p_tenant_id bigint, p_name text, p_values text[]) returns bigint[]
functions | pgrag_private.filter_date(jsonb,text) | pgrag_private.filter_date(p_filter jsonb, p_key text) returns date
functions | pgrag_private.filter_values(jsonb,text) | pgrag_private.filter_values(p_filter jsonb, p_key text) returns text[]
functions | pgrag_private.filtered_revisions(bigint,bigint[],timestamp with time zone,jsonb,boolean) | pgrag_private.filtered_revisions(p_tenant_id bigint, p_acls bigint[], p_as_of timestamp with time zone, p_filter jsonb, p_index boolean) returns TABLE(revision_id bigint, languages text[], chunk_count integer, lexeme_count bigint)
functions | pgrag_private.find_document(pgrag_data.source,text) | pgrag_private.find_document(p_source pgrag_data.source, p_document text) returns pgrag_data.document
functions | pgrag_private.find_principal(bigint,text) | pgrag_private.find_principal(p_tenant_id bigint, p_name text) returns pgrag_data.principal
functions | pgrag_private.find_revision(pgrag_data.document,text) | pgrag_private.find_revision(p_document pgrag_data.document, p_revision text) returns pgrag_data.revision
functions | pgrag_private.find_source(pgrag_private.principal,text) | pgrag_private.find_source(p_principal pgrag_private.principal, p_source text) returns pgrag_data.source
functions | pgrag_private.find_space(bigint,text) | pgrag_private.find_space(p_tenant_id bigint, p_space text) returns pgrag_data.embedding_space
functions | pgrag_private.find_tenant(text) | pgrag_private.find_tenant(p_tenant text) returns bigint
functions | pgrag_private.finding(text,text,text) | pgrag_private.finding(p_check text, p_id text, p_message text) returns jsonb
functions | pgrag_private.finding_of_access(pgrag_private.principal,text,bigint) | pgrag_private.finding_of_access(p_principal pgrag_private.principal, p_id text, p_revision_id bigint) returns jsonb
functions | pgrag_private.fingerprint(text[]) | pgrag_private.fingerprint(VARIADIC p_parts text[]) returns bytea
functions | pgrag_private.fold_scope_totals() | % returns bigint
functions | pgrag_private.function_bodies() | % returns TABLE(function text, body text)
functions | pgrag_private.half_of(pgrag_data.embedding_space,public.vector) | pgrag_private.half_of(p_space pgrag_data.embedding_space, p_embedding public.vector) returns public.halfvec
functions | pgrag_private.hmac_pad(bytea,integer) | pgrag_private.hmac_pad(p_secret bytea, p_byte integer) returns bytea
functions | pgrag_private.index_block_table(bigint) | pgrag_private.index_block_table(p_block_id bigint) returns void
functions | pgrag_private.index_finds(bigint,pgrag_private.lexical_plan,integer) | pgrag_private.index_finds(p_tenant_id bigint, p_plan pgrag_private.lexical_plan, p_count integer) returns boolean
functions | pgrag_private.installed_bodies() | % returns jsonb
functions | pgrag_private.internal_mac(text,text) | pgrag_private.internal_mac(p_purpose text, p_message text) returns text
functions | pgrag_private.is_blank(text) | pgrag_private.is_blank(p_text text) returns boolean
functions | pgrag_private.is_language(text) | pgrag_private.is_language(p_text text) returns boolean
functions | pgrag_private.is_sayable(text) | pgrag_private.is_sayable(p_text text) returns boolean
functions | pgrag_private.json_texts(jsonb) | pgrag_private.json_texts(p_list jsonb) returns text[]
functions | pgrag_private.ledger_gaps(bigint) | pgrag_private.ledger_gaps(p_tenant_id bigint) returns TABLE(tenant_id bigint, acl_id bigint, source_id bigint, languages text[], until timestamp with time zone, documents bigint, chunks bigint, lexemes bigint)
functions | pgrag_private.lexeme_count(tsvector) | pgrag_private.lexeme_count(p_lexemes tsvector) returns integer
functions | pgrag_private.lexeme_keys(bigint,text[]) | pgrag_private.lexeme_keys(p_tenant_id bigint, p_lexemes text[]) returns bigint[]
functions | pgrag_private.lexeme_query(text) | pgrag_private.lexeme_query(p_lexeme text) returns tsquery
functions | pgrag_private.lexical_bound(pgrag_private.lexical_plan[]) | pgrag_private.lexical_bound(p_plans pgrag_private.lexical_plan[]) returns jsonb
functions | pgrag_private.lexical_lane(bigint,pgrag_private.lexical_plan,integer,bigint[],integer[]) | pgrag_private.lexical_lane(p_tenant_id bigint, p_plan pgrag_private.lexical_plan, p_limit integer, p_also_revisions bigint[], p_also_chunks integer[]) returns TABLE(revision_id bigint, chunk_no integer, chunk_id bytea, score double precision, share double precision, coverage double precision, evidence double precision, tf double precision[], part double precision[])
functions | pgrag_private.lexical_plans(pgrag_private.search_scope,text[],text[],text[],boolean) | pgrag_private.lexical_plans(p_scope pgrag_private.search_scope, p_wordings text[], p_phrases text[], p_excluded text[], p_index boolean) returns pgrag_private.lexical_plan[]
functions | pgrag_private.makes_a_difference(text) | pgrag_private.makes_a_difference(p_word text) returns boolean
functions | pgrag_private.matched_terms(bigint,bigint,integer,pgrag_private.lexical_plan[],double precision[],double precision[]) | pgrag_private.matched_terms(p_tenant_id bigint, p_revision_id bigint, p_chunk_no integer, p_plans pgrag_private.lexical_plan[], p_tf double precision[], p_part double precision[]) returns jsonb
functions | pgrag_private.missing_in_space(bigint,bigint) | pgrag_private.missing_in_space(p_tenant_id bigint, p_space_id bigint) returns bigint
functions | pgrag_private.negations() | % returns text[]
functions | pgrag_private.not_found(text) | pgrag_private.not_found(p_what text) returns void
functions | pgrag_private.numbers() | % returns text[]
functions | pgrag_private.pairs_of(text) | pgrag_private.pairs_of(p_run text) returns TABLE(pair text, place bigint)
functions | pgrag_private.parse_question(text) | pgrag_private.parse_question(p_question text, OUT words text, OUT phrases text[], OUT excluded text[]) returns record
functions | pgrag_private.permitted_acls(bigint,bigint) | pgrag_private.permitted_acls(p_tenant_id bigint, p_reader_id bigint) returns SETOF bigint
functions | pgrag_private.phrase_lexemes(text,text[]) | pgrag_private.phrase_lexemes(p_language text, p_phrases text[]) returns text[]
functions | pgrag_private.phrase_query(text,text) | pgrag_private.phrase_query(p_language text, p_phrase text) returns tsquery
functions | pgrag_private.phrases_occur(pgrag_private.search_scope,text[],boolean) | pgrag_private.phrases_occur(p_scope pgrag_private.search_scope, p_phrases text[], p_index boolean) returns boolean
functions | pgrag_private.pick(bigint,pgrag_private.ranked_chunk[],integer,integer,integer) | pgrag_private.pick(p_tenant_id bigint, p_ranked pgrag_private.ranked_chunk[], p_k integer, p_per_document integer, p_per_source integer, OUT chunks pgrag_private.ranked_chunk[], OUT complete_reason text) returns record
functions | pgrag_private.pinned_settings(boolean) | pgrag_private.pinned_settings(p_volatile boolean) returns TABLE(name text, value text)
functions | pgrag_private.plain_quote(text) | pgrag_private.plain_quote(p_text text) returns text
functions | pgrag_private.purge_retired_spaces() | % returns bigint
functions | pgrag_private.put_embeddings(pgrag_data.revision,pgrag_data.embedding_space,integer,public.vector[]) | pgrag_private.put_embeddings(p_revision pgrag_data.revision, p_space pgrag_data.embedding_space, p_first integer, p_embeddings public.vector[]) returns void
functions | pgrag_private.question_condition(text,text[],text[]) | pgrag_private.question_condition(p_language text, p_phrases text[], p_excluded text[]) returns tsquery
functions | pgrag_private.random_secret() | % returns bytea
functions | pgrag_private.renumber_documents(bigint) | pgrag_private.renumber_documents(p_tenant_id bigint) returns bigint
functions | pgrag_private.retrieve(pgrag_private.principal,pgrag_private.search_request) | pgrag_private.retrieve(p_principal pgrag_private.principal, p_search pgrag_private.search_request) returns jsonb
functions | pgrag_private.retrieve_json(pgrag_private.principal,jsonb,integer) | pgrag_private.retrieve_json(p_principal pgrag_private.principal, p_request jsonb, p_default_k integer) returns jsonb
functions | pgrag_private.scope(bigint,bigint,timestamp with time zone,jsonb) | pgrag_private.scope(p_tenant_id bigint, p_reader_id bigint, p_as_of timestamp with time zone, p_filter jsonb) returns bigint[]
functions | pgrag_private.scope_first_limit() | % returns integer
functions | pgrag_private.scope_languages(pgrag_private.scope_part[]) | pgrag_private.scope_languages(p_parts pgrag_private.scope_part[]) returns TABLE(languages text[])
functions | pgrag_private.score(double precision) | pgrag_private.score(p_score double precision) returns numeric
functions | pgrag_private.seal(pgrag_private.principal,jsonb) | pgrag_private.seal(p_principal pgrag_private.principal, p_packet jsonb) returns text
functions | pgrag_private.search_blocks(pgrag_private.search_scope,pgrag_private.dense_plan,public.vector,integer,text[],tsquery[]) | pgrag_private.search_blocks(p_scope pgrag_private.search_scope, p_plan pgrag_private.dense_plan, p_embedding public.vector, p_limit integer, p_languages text[], p_conditions tsquery[], OUT revisions bigint[], OUT chunks integer[], OUT short_acls bigint[]) returns record
functions | pgrag_private.search_scope(bigint,bigint,pgrag_private.search_request,boolean) | pgrag_private.search_scope(p_tenant_id bigint, p_reader_id bigint, p_search pgrag_private.search_request, p_listed boolean DEFAULT true) returns pgrag_private.search_scope
functions | pgrag_private.similarity(tsvector,tsvector) | pgrag_private.similarity(p_one tsvector, p_other tsvector) returns double precision
functions | pgrag_private.spaced_words(text,text) | pgrag_private.spaced_words(p_language text, p_text text) returns tsvector
functions | pgrag_private.split_joined(text) | pgrag_private.split_joined(p_text text) returns text
functions | pgrag_private.standing_revisions(bigint,bigint) | pgrag_private.standing_revisions(p_tenant_id bigint, p_document_id bigint) returns TABLE(revision_id bigint, activation_id bigint)
functions | pgrag_private.switch_revision(pgrag_private.principal,pgrag_data.document,pgrag_data.revision,text,text,boolean) | pgrag_private.switch_revision(p_principal pgrag_private.principal, p_document pgrag_data.document, p_revision pgrag_data.revision, p_action text, p_expected_active text, p_restore boolean) returns boolean
functions | pgrag_private.text_config(text) | pgrag_private.text_config(p_language text) returns regconfig
functions | pgrag_private.tf_slot() | % returns text
functions | pgrag_private.to_lexemes(text,text) | pgrag_private.to_lexemes(p_language text, p_text text) returns tsvector
functions | pgrag_private.transaction_mark() | % returns text
functions | pgrag_private.unspaced_pairs(text) | pgrag_private.unspaced_pairs(p_text text) returns tsvector
functions | pgrag_private.unspaced_run() | % returns text
functions | pgrag_private.utc(timestamp with time zone) | pgrag_private.utc(p_time timestamp with time zone) returns text
functions | pgrag_private.verify_token(text) | pgrag_private.verify_token(p_token text) returns pgrag_private.principal
functions | pgrag_private.visible_revisions(bigint,bigint[],timestamp with time zone,jsonb,boolean) | pgrag_private.visible_revisions(p_tenant_id bigint, p_acls bigint[], p_as_of timestamp with time zone, p_filter jsonb, p_index boolean DEFAULT false) returns TABLE(revision_id bigint, languages text[], chunk_count integer, lexeme_count bigint)
functions | pgrag_private.visible_row(text,text,boolean) | pgrag_private.visible_row(p_row text, p_scope text, p_counted boolean) returns text
indexes | pgrag_data.acl_entry_acl | CREATE INDEX acl_entry_acl ON pgrag_data.acl_entry USING btree (acl_id, tenant_id)
indexes | pgrag_data.chunk_lex_keys | CREATE INDEX chunk_lex_keys ON pgrag_data.chunk_lex USING gin (pgrag_private.lexeme_keys(tenant_id, tsvector_to_array(lexemes))) WITH (fastupdate=off)
indexes | pgrag_data.dense_block_state_key | CREATE UNIQUE INDEX dense_block_state_key ON pgrag_data.dense_block USING btree (tenant_id, space_id, COALESCE(acl_id, (0)::bigint), ((base_id IS NULL)), ((state = 'live'::text))) WHERE (state <> 'retired'::text)
indexes | pgrag_data.document_acl | CREATE INDEX document_acl ON pgrag_data.document USING btree (acl_id, tenant_id, document_id) WHERE ((deleted_at IS NULL) AND (active_revision_id IS NOT NULL))
indexes | pgrag_data.document_active | CREATE INDEX document_active ON pgrag_data.document USING btree (active_revision_id, tenant_id) INCLUDE (acl_id, source_id, active_until) WHERE (deleted_at IS NULL)
indexes | pgrag_data.document_changed | CREATE INDEX document_changed ON pgrag_data.document USING btree (acl_id, tenant_id, changed_xid) WHERE ((deleted_at IS NULL) AND (active_revision_id IS NOT NULL))
indexes | pgrag_data.document_sample | CREATE INDEX document_sample ON pgrag_data.document USING btree (acl_id, tenant_id, hashtext(document)) WHERE ((deleted_at IS NULL) AND (active_revision_id IS NOT NULL))
indexes | pgrag_data.principal_name_key | CREATE UNIQUE INDEX principal_name_key ON pgrag_data.principal USING btree (name, tenant_id) WHERE (dropped_at IS NULL)
indexes | pgrag_data.revision_dated | CREATE INDEX revision_dated ON pgrag_data.revision USING btree (tenant_id, dated) WHERE (dated IS NOT NULL)
indexes | pgrag_data.revision_facets | CREATE INDEX revision_facets ON pgrag_data.revision USING gin (pgrag_private.facet_keys(tenant_id, language, product, version, tags, metadata)) WITH (fastupdate=off)
owners | function pgrag_private.create_block_table(bigint,integer) | alter % owner to pgrag_owner
owners | function pgrag_private.drop_block_table(bigint) | alter % owner to pgrag_owner
owners | function pgrag_private.index_block_table(bigint) | alter % owner to pgrag_owner
owners | schema pgrag | alter % owner to pgrag_owner
owners | schema pgrag_block | alter % owner to pgrag_owner
owners | schema pgrag_data | alter % owner to pgrag_owner
owners | schema pgrag_private | alter % owner to pgrag_owner
owners | table pgrag_data.acl | alter % owner to pgrag_owner
owners | table pgrag_data.acl_entry | alter % owner to pgrag_owner
owners | table pgrag_data.activation | alter % owner to pgrag_owner
owners | table pgrag_data.chunk | alter % owner to pgrag_owner
owners | table pgrag_data.chunk_lex | alter % owner to pgrag_owner
owners | table pgrag_data.chunk_vec | alter % owner to pgrag_owner
owners | table pgrag_data.dense_block | alter % owner to pgrag_owner
owners | table pgrag_data.document | alter % owner to pgrag_owner
owners | table pgrag_data.embedding_space | alter % owner to pgrag_owner
owners | table pgrag_data.membership | alter % owner to pgrag_owner
owners | table pgrag_data.principal | alter % owner to pgrag_owner
owners | table pgrag_data.revision | alter % owner to pgrag_owner
owners | table pgrag_data.revision_source | alter % owner to pgrag_owner
owners | table pgrag_data.revision_space | alter % owner to pgrag_owner
owners | table pgrag_data.scope_total | alter % owner to pgrag_owner
owners | table pgrag_data.search_cost | alter % owner to pgrag_owner
owners | table pgrag_data.source | alter % owner to pgrag_owner
owners | table pgrag_data.tenant | alter % owner to pgrag_owner
owners | table pgrag_private.internal_key | alter % owner to pgrag_owner
owners | table pgrag_private.signing_key | alter % owner to pgrag_owner
owners | type pgrag_private.block_list | alter % owner to pgrag_engine
owners | type pgrag_private.dense_plan | alter % owner to pgrag_engine
owners | type pgrag_private.doctor_finding | alter % owner to pgrag_engine
owners | type pgrag_private.lexical_plan | alter % owner to pgrag_engine
owners | type pgrag_private.principal | alter % owner to pgrag_engine
owners | type pgrag_private.ranked_chunk | alter % owner to pgrag_engine
owners | type pgrag_private.scope_part | alter % owner to pgrag_engine
owners | type pgrag_private.search_request | alter % owner to pgrag_engine
owners | type pgrag_private.search_scope | alter % owner to pgrag_engine
owners | view pgrag.chunks | alter % owner to pgrag_viewer
owners | view pgrag.documents | alter % owner to pgrag_viewer
policies | pgrag_acl_engine on pgrag_data.acl | create policy % as permissive for all to pgrag_engine using (true) with check (true)
policies | pgrag_acl_entry_engine on pgrag_data.acl_entry | create policy % as permissive for all to pgrag_engine using (true) with check (true)
policies | pgrag_activation_engine on pgrag_data.activation | create policy % as permissive for all to pgrag_engine using (true) with check (true)
policies | pgrag_chunk_engine on pgrag_data.chunk | create policy % as permissive for all to pgrag_engine using (true) with check (true)
policies | pgrag_chunk_lex_engine on pgrag_data.chunk_lex | create policy % as permissive for all to pgrag_engine using (true) with check (true)
policies | pgrag_chunk_select on pgrag_data.chunk | create policy % as permissive for select to pgrag_viewer using (((tenant_id = ( SELECT pgrag_private.browse_tenant() AS browse_tenant)) AND (revision_id = ANY (( SELECT pgrag_private.browse_revisions() AS browse_revisions)::bigint[]))))
policies | pgrag_chunk_vec_engine on pgrag_data.chunk_vec | create policy % as permissive for all to pgrag_engine using (true) with check (true)
policies | pgrag_dense_block_engine on pgrag_data.dense_block | create policy % as permissive for all to pgrag_engine using (true) with check (true)
policies | pgrag_document_engine on pgrag_data.document | create policy % as permissive for all to pgrag_engine using (true) with check (true)
policies | pgrag_document_select on pgrag_data.document | create policy % as permissive for select to pgrag_viewer using (((tenant_id = ( SELECT pgrag_private.browse_tenant() AS browse_tenant)) AND (active_revision_id = ANY (( SELECT pgrag_private.browse_revisions() AS browse_revisions)::bigint[]))))
policies | pgrag_embedding_space_engine on pgrag_data.embedding_space | create policy % as permissive for all to pgrag_engine using (true) with check (true)
policies | pgrag_internal_key_engine on pgrag_private.internal_key | create policy % as permissive for all to pgrag_engine using (true) with check (true)
policies | pgrag_membership_engine on pgrag_data.membership | create policy % as permissive for all to pgrag_engine using (true) with check (true)
policies | pgrag_principal_engine on pgrag_data.principal | create policy % as permissive for all to pgrag_engine using (true) with check (true)
policies | pgrag_revision_engine on pgrag_data.revision | create policy % as permissive for all to pgrag_engine using (true) with check (true)
policies | pgrag_revision_select on pgrag_data.revision | create policy % as permissive for select to pgrag_viewer using (((tenant_id = ( SELECT pgrag_private.browse_tenant() AS browse_tenant)) AND (revision_id = ANY (( SELECT pgrag_private.browse_revisions() AS browse_revisions)::bigint[]))))
policies | pgrag_revision_source_engine on pgrag_data.revision_source | create policy % as permissive for all to pgrag_engine using (true) with check (true)
policies | pgrag_revision_space_engine on pgrag_data.revision_space | create policy % as permissive for all to pgrag_engine using (true) with check (true)
policies | pgrag_scope_total_engine on pgrag_data.scope_total | create policy % as permissive for all to pgrag_engine using (true) with check (true)
policies | pgrag_search_cost_engine on pgrag_data.search_cost | create policy % as permissive for all to pgrag_engine using (true) with check (true)
policies | pgrag_signing_key_engine on pgrag_private.signing_key | create policy % as permissive for all to pgrag_engine using (true) with check (true)
policies | pgrag_source_engine on pgrag_data.source | create policy % as permissive for all to pgrag_engine using (true) with check (true)
policies | pgrag_source_select on pgrag_data.source | create policy % as permissive for select to pgrag_viewer using ((tenant_id = ( SELECT pgrag_private.browse_tenant() AS browse_tenant)))
policies | pgrag_tenant_engine on pgrag_data.tenant | create policy % as permissive for all to pgrag_engine using (true) with check (true)
privileges | delete on table pgrag_data.chunk_vec to pgrag_engine | grant %
privileges | delete on table pgrag_data.dense_block to pgrag_engine | grant %
privileges | delete on table pgrag_data.membership to pgrag_engine | grant %
privileges | delete on table pgrag_data.revision_space to pgrag_engine | grant %
privileges | delete on table pgrag_data.scope_total to pgrag_engine | grant %
privileges | execute on function pgrag.activate(text,text,text,boolean,text) to pgrag_admin | grant %
privileges | execute on function pgrag.activate(text,text,text,boolean,text) to pgrag_writer | grant %
privileges | execute on function pgrag.active_space(text) to pgrag_reader | grant %
privileges | execute on function pgrag.active_space(text) to pgrag_writer | grant %
privileges | execute on function pgrag.add_chunks(text,text,integer,text[],integer[],integer[],integer[],text[],integer[],text[],public.vector[]) to pgrag_writer | grant %
privileges | execute on function pgrag.add_embeddings(text,text,text,integer,public.vector[]) to pgrag_writer | grant %
privileges | execute on function pgrag.add_signing_key(text,bytea,text,text) to pgrag_keys | grant %
privileges | execute on function pgrag.authenticate(text) to pgrag_admin | grant %
privileges | execute on function pgrag.authenticate(text) to pgrag_auditor | grant %
privileges | execute on function pgrag.authenticate(text) to pgrag_browser | grant %
privileges | execute on function pgrag.authenticate(text) to pgrag_reader | grant %
privileges | execute on function pgrag.authenticate(text) to pgrag_writer | grant %
privileges | execute on function pgrag.build_space(text,text) to pgrag_operator | grant %
privileges | execute on function pgrag.calibrate() to pgrag_operator | grant %
privileges | execute on function pgrag.can_read(text,text,text) to pgrag_reader | grant %
privileges | execute on function pgrag.delete_document(text,text) to pgrag_admin | grant %
privileges | execute on function pgrag.delete_document(text,text) to pgrag_writer | grant %
privileges | execute on function pgrag.doctor() to pgrag_operator | grant %
privileges | execute on function pgrag.drop_membership(text,text) to pgrag_admin | grant %
privileges | execute on function pgrag.drop_principal(text) to pgrag_admin | grant %
privileges | execute on function pgrag.excerpt(text,timestamp with time zone,text) to pgrag_reader | grant %
privileges | execute on function pgrag.index_status() to pgrag_operator | grant %
privileges | execute on function pgrag.list_documents(text,text) to pgrag_admin | grant %
privileges | execute on function pgrag.list_documents(text,text) to pgrag_writer | grant %
privileges | execute on function pgrag.list_memberships(text) to pgrag_admin | grant %
privileges | execute on function pgrag.list_principals(text) to pgrag_admin | grant %
privileges | execute on function pgrag.list_revisions(text,text,text) to pgrag_admin | grant %
privileges | execute on function pgrag.list_revisions(text,text,text) to pgrag_writer | grant %
privileges | execute on function pgrag.list_signing_keys() to pgrag_keys | grant %
privileges | execute on function pgrag.list_sources(text) to pgrag_operator | grant %
privileges | execute on function pgrag.list_spaces(text) to pgrag_operator | grant %
privileges | execute on function pgrag.list_tenants() to pgrag_operator | grant %
privileges | execute on function pgrag.maintain(interval) to pgrag_operator | grant %
privileges | execute on function pgrag.missing_embeddings(text,integer,boolean) to pgrag_writer | grant %
privileges | execute on function pgrag.next_space(text) to pgrag_reader | grant %
privileges | execute on function pgrag.next_space(text) to pgrag_writer | grant %
privileges | execute on function pgrag.packet(text,integer,text,public.vector,text,text,timestamp with time zone,jsonb,integer,double precision,integer,text,integer,boolean,text,text[],public.vector[],integer,integer,text,text,text[],text) to pgrag_reader | grant %
privileges | execute on function pgrag.packet_json(jsonb,text) to pgrag_reader | grant %
privileges | execute on function pgrag.put_membership(text,text) to pgrag_admin | grant %
privileges | execute on function pgrag.put_principal(text,text) to pgrag_admin | grant %
privileges | execute on function pgrag.put_source(text,text,text[],text) to pgrag_operator | grant %
privileges | execute on function pgrag.put_space(text,text,text,text,integer,text,text,text,text,text,text,text) to pgrag_operator | grant %
privileges | execute on function pgrag.put_tenant(text,text) to pgrag_operator | grant %
privileges | execute on function pgrag.retire_signing_key(text) to pgrag_keys | grant %
privileges | execute on function pgrag.retire_space(text,text) to pgrag_operator | grant %
privileges | execute on function pgrag.rollback(text,text,text,text) to pgrag_admin | grant %
privileges | execute on function pgrag.rollback(text,text,text,text) to pgrag_writer | grant %
privileges | execute on function pgrag.search(text,integer,text,public.vector,text,text,timestamp with time zone,jsonb,integer,double precision,text,text[],public.vector[],integer,integer,text,text,text[],text) to pgrag_reader | grant %
privileges | execute on function pgrag.search_json(jsonb,text) to pgrag_reader | grant %
privileges | execute on function pgrag.set_access(text,text[],text) to pgrag_admin | grant %
privileges | execute on function pgrag.set_access(text,text[],text) to pgrag_writer | grant %
privileges | execute on function pgrag.space_status(text) to pgrag_operator | grant %
privileges | execute on function pgrag.stage_revision(text,text,text,text,text,text,text,text[],date,timestamp with time zone,timestamp with time zone,text,text,text,text,int4range[],jsonb) to pgrag_writer | grant %
privileges | execute on function pgrag.status() to pgrag_admin | grant %
privileges | execute on function pgrag.status() to pgrag_auditor | grant %
privileges | execute on function pgrag.status() to pgrag_browser | grant %
privileges | execute on function pgrag.status() to pgrag_keys | grant %
privileges | execute on function pgrag.status() to pgrag_operator | grant %
privileges | execute on function pgrag.status() to pgrag_reader | grant %
privileges | execute on function pgrag.status() to pgrag_writer | grant %
privileges | execute on function pgrag.switch_space(text,text) to pgrag_operator | grant %
privileges | execute on function pgrag.validate_reply(jsonb,jsonb,text) to pgrag_reader | grant %
privileges | execute on function pgrag.verify_revision(text,text,integer) to pgrag_writer | grant %
privileges | execute on function pgrag.version() to pgrag_admin | grant %
privileges | execute on function pgrag.version() to pgrag_auditor | grant %
privileges | execute on function pgrag.version() to pgrag_browser | grant %
privileges | execute on function pgrag.version() to pgrag_keys | grant %
privileges | execute on function pgrag.version() to pgrag_operator | grant %
privileges | execute on function pgrag.version() to pgrag_reader | grant %
privileges | execute on function pgrag.version() to pgrag_writer | grant %
privileges | execute on function pgrag.whoami(text) to pgrag_admin | grant %
privileges | execute on function pgrag.whoami(text) to pgrag_auditor | grant %
privileges | execute on function pgrag.whoami(text) to pgrag_browser | grant %
privileges | execute on function pgrag.whoami(text) to pgrag_reader | grant %
privileges | execute on function pgrag.whoami(text) to pgrag_writer | grant %
privileges | execute on function pgrag.writer_source(text) to pgrag_writer | grant %
privileges | execute on function pgrag_private.browse_revisions() to pgrag_browser | grant %
privileges | execute on function pgrag_private.browse_tenant() to pgrag_browser | grant %
privileges | execute on function pgrag_private.create_block_table(bigint,integer) to pgrag_engine | grant %
privileges | execute on function pgrag_private.drop_block_table(bigint) to pgrag_engine | grant %
privileges | execute on function pgrag_private.facet_keys(bigint,text,text,text,text[],jsonb) to pgrag_owner | grant %
privileges | execute on function pgrag_private.index_block_table(bigint) to pgrag_engine | grant %
privileges | execute on function pgrag_private.lexeme_keys(bigint,text[]) to pgrag_owner | grant %
privileges | insert on table pgrag_data.acl to pgrag_engine | grant %
privileges | insert on table pgrag_data.acl_entry to pgrag_engine | grant %
privileges | insert on table pgrag_data.activation to pgrag_engine | grant %
privileges | insert on table pgrag_data.chunk to pgrag_engine | grant %
privileges | insert on table pgrag_data.chunk_lex to pgrag_engine | grant %
privileges | insert on table pgrag_data.chunk_vec to pgrag_engine | grant %
privileges | insert on table pgrag_data.dense_block to pgrag_engine | grant %
privileges | insert on table pgrag_data.document to pgrag_engine | grant %
privileges | insert on table pgrag_data.embedding_space to pgrag_engine | grant %
privileges | insert on table pgrag_data.membership to pgrag_engine | grant %
privileges | insert on table pgrag_data.principal to pgrag_engine | grant %
privileges | insert on table pgrag_data.revision to pgrag_engine | grant %
privileges | insert on table pgrag_data.revision_source to pgrag_engine | grant %
privileges | insert on table pgrag_data.revision_space to pgrag_engine | grant %
privileges | insert on table pgrag_data.scope_total to pgrag_engine | grant %
privileges | insert on table pgrag_data.search_cost to pgrag_engine | grant %
privileges | insert on table pgrag_data.source to pgrag_engine | grant %
privileges | insert on table pgrag_data.tenant to pgrag_engine | grant %
privileges | insert on table pgrag_private.internal_key to pgrag_engine | grant %
privileges | insert on table pgrag_private.signing_key to pgrag_engine | grant %
privileges | select on sequence pgrag_data.acl_acl_id_seq to pgrag_engine | grant %
privileges | select on sequence pgrag_data.activation_activation_id_seq to pgrag_engine | grant %
privileges | select on sequence pgrag_data.dense_block_block_id_seq to pgrag_engine | grant %
privileges | select on sequence pgrag_data.document_document_id_seq to pgrag_engine | grant %
privileges | select on sequence pgrag_data.embedding_space_space_id_seq to pgrag_engine | grant %
privileges | select on sequence pgrag_data.principal_principal_id_seq to pgrag_engine | grant %
privileges | select on sequence pgrag_data.revision_revision_id_seq to pgrag_engine | grant %
privileges | select on sequence pgrag_data.scope_total_scope_total_id_seq to pgrag_engine | grant %
privileges | select on sequence pgrag_data.source_source_id_seq to pgrag_engine | grant %
privileges | select on sequence pgrag_data.tenant_tenant_id_seq to pgrag_engine | grant %
privileges | select on table pgrag.chunks to pgrag_browser | grant %
privileges | select on table pgrag.documents to pgrag_browser | grant %
privileges | select on table pgrag_data.acl to pgrag_engine | grant %
privileges | select on table pgrag_data.acl_entry to pgrag_engine | grant %
privileges | select on table pgrag_data.activation to pgrag_engine | grant %
privileges | select on table pgrag_data.chunk to pgrag_engine | grant %
privileges | select on table pgrag_data.chunk to pgrag_viewer | grant %
privileges | select on table pgrag_data.chunk_lex to pgrag_engine | grant %
privileges | select on table pgrag_data.chunk_vec to pgrag_engine | grant %
privileges | select on table pgrag_data.dense_block to pgrag_engine | grant %
privileges | select on table pgrag_data.document to pgrag_engine | grant %
privileges | select on table pgrag_data.document to pgrag_viewer | grant %
privileges | select on table pgrag_data.embedding_space to pgrag_engine | grant %
privileges | select on table pgrag_data.membership to pgrag_engine | grant %
privileges | select on table pgrag_data.principal to pgrag_engine | grant %
privileges | select on table pgrag_data.revision to pgrag_engine | grant %
privileges | select on table pgrag_data.revision to pgrag_viewer | grant %
privileges | select on table pgrag_data.revision_source to pgrag_engine | grant %
privileges | select on table pgrag_data.revision_space to pgrag_engine | grant %
privileges | select on table pgrag_data.scope_total to pgrag_engine | grant %
privileges | select on table pgrag_data.search_cost to pgrag_engine | grant %
privileges | select on table pgrag_data.source to pgrag_engine | grant %
privileges | select on table pgrag_data.source to pgrag_viewer | grant %
privileges | select on table pgrag_data.tenant to pgrag_engine | grant %
privileges | select on table pgrag_private.internal_key to pgrag_engine | grant %
privileges | select on table pgrag_private.signing_key to pgrag_engine | grant %
privileges | update on table pgrag_data.dense_block to pgrag_engine | grant %
privileges | update on table pgrag_data.document to pgrag_engine | grant %
privileges | update on table pgrag_data.embedding_space to pgrag_engine | grant %
privileges | update on table pgrag_data.principal to pgrag_engine | grant %
privileges | update on table pgrag_data.revision to pgrag_engine | grant %
privileges | update on table pgrag_data.scope_total to pgrag_engine | grant %
privileges | update on table pgrag_data.search_cost to pgrag_engine | grant %
privileges | update on table pgrag_data.source to pgrag_engine | grant %
privileges | update on table pgrag_data.tenant to pgrag_engine | grant %
privileges | update on table pgrag_private.signing_key to pgrag_engine | grant %
privileges | usage on schema pgrag to pgrag_admin | grant %
privileges | usage on schema pgrag to pgrag_auditor | grant %
privileges | usage on schema pgrag to pgrag_browser | grant %
privileges | usage on schema pgrag to pgrag_engine | grant %
privileges | usage on schema pgrag to pgrag_keys | grant %
privileges | usage on schema pgrag to pgrag_operator | grant %
privileges | usage on schema pgrag to pgrag_reader | grant %
privileges | usage on schema pgrag to pgrag_viewer | grant %
privileges | usage on schema pgrag to pgrag_writer | grant %
privileges | usage on schema pgrag_block to pgrag_engine | grant %
privileges | usage on schema pgrag_data to pgrag_engine | grant %
privileges | usage on schema pgrag_data to pgrag_viewer | grant %
privileges | usage on schema pgrag_private to pgrag_engine | grant %
privileges | usage on schema pgrag_private to pgrag_viewer | grant %
row_security | pgrag_data.acl | alter table % enable row level security
row_security | pgrag_data.acl | alter table % force row level security
row_security | pgrag_data.acl_entry | alter table % enable row level security
row_security | pgrag_data.acl_entry | alter table % force row level security
row_security | pgrag_data.activation | alter table % enable row level security
row_security | pgrag_data.activation | alter table % force row level security
row_security | pgrag_data.chunk | alter table % enable row level security
row_security | pgrag_data.chunk | alter table % force row level security
row_security | pgrag_data.chunk_lex | alter table % enable row level security
row_security | pgrag_data.chunk_lex | alter table % force row level security
row_security | pgrag_data.chunk_vec | alter table % enable row level security
row_security | pgrag_data.chunk_vec | alter table % force row level security
row_security | pgrag_data.dense_block | alter table % enable row level security
row_security | pgrag_data.dense_block | alter table % force row level security
row_security | pgrag_data.document | alter table % enable row level security
row_security | pgrag_data.document | alter table % force row level security
row_security | pgrag_data.embedding_space | alter table % enable row level security
row_security | pgrag_data.embedding_space | alter table % force row level security
row_security | pgrag_data.membership | alter table % enable row level security
row_security | pgrag_data.membership | alter table % force row level security
row_security | pgrag_data.principal | alter table % enable row level security
row_security | pgrag_data.principal | alter table % force row level security
row_security | pgrag_data.revision | alter table % enable row level security
row_security | pgrag_data.revision | alter table % force row level security
row_security | pgrag_data.revision_source | alter table % enable row level security
row_security | pgrag_data.revision_source | alter table % force row level security
row_security | pgrag_data.revision_space | alter table % enable row level security
row_security | pgrag_data.revision_space | alter table % force row level security
row_security | pgrag_data.scope_total | alter table % enable row level security
row_security | pgrag_data.scope_total | alter table % force row level security
row_security | pgrag_data.search_cost | alter table % enable row level security
row_security | pgrag_data.search_cost | alter table % force row level security
row_security | pgrag_data.source | alter table % enable row level security
row_security | pgrag_data.source | alter table % force row level security
row_security | pgrag_data.tenant | alter table % enable row level security
row_security | pgrag_data.tenant | alter table % force row level security
row_security | pgrag_private.internal_key | alter table % enable row level security
row_security | pgrag_private.internal_key | alter table % force row level security
row_security | pgrag_private.signing_key | alter table % enable row level security
row_security | pgrag_private.signing_key | alter table % force row level security
search_path | search_path of pgrag_private.catalog() | alter function pgrag_private.catalog() set search_path to pg_catalog, pg_temp
search_path | search_path of pgrag_private.expected_catalog() | alter function pgrag_private.expected_catalog() set search_path to pg_catalog, pg_temp
search_path | search_path of pgrag_private.function_bodies() | alter function pgrag_private.function_bodies() set search_path to pg_catalog, pg_temp
tables | acl_entry_acl_fkey on pgrag_data.acl_entry | alter table pgrag_data.acl_entry add constraint acl_entry_acl_fkey FOREIGN KEY (tenant_id, acl_id) REFERENCES pgrag_data.acl(tenant_id, acl_id)
tables | acl_entry_pkey on pgrag_data.acl_entry | alter table pgrag_data.acl_entry add constraint acl_entry_pkey PRIMARY KEY (tenant_id, principal_id, acl_id)
tables | acl_entry_principal_fkey on pgrag_data.acl_entry | alter table pgrag_data.acl_entry add constraint acl_entry_principal_fkey FOREIGN KEY (tenant_id, principal_id) REFERENCES pgrag_data.principal(tenant_id, principal_id)
tables | acl_fingerprint_key on pgrag_data.acl | alter table pgrag_data.acl add constraint acl_fingerprint_key UNIQUE (fingerprint, tenant_id)
tables | acl_pkey on pgrag_data.acl | alter table pgrag_data.acl add constraint acl_pkey PRIMARY KEY (tenant_id, acl_id)
tables | acl_tenant_id_fkey on pgrag_data.acl | alter table pgrag_data.acl add constraint acl_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES pgrag_data.tenant(tenant_id)
tables | activation_action_check on pgrag_data.activation | alter table pgrag_data.activation add constraint activation_action_check CHECK ((action = ANY (ARRAY['activate'::text, 'rollback'::text])))
tables | activation_pkey on pgrag_data.activation | alter table pgrag_data.activation add constraint activation_pkey PRIMARY KEY (tenant_id, document_id, activation_id)
tables | activation_replaced_fkey on pgrag_data.activation | alter table pgrag_data.activation add constraint activation_replaced_fkey FOREIGN KEY (tenant_id, document_id, replaced_revision_id) REFERENCES pgrag_data.revision(tenant_id, document_id, revision_id)
tables | activation_revision_fkey on pgrag_data.activation | alter table pgrag_data.activation add constraint activation_revision_fkey FOREIGN KEY (tenant_id, document_id, revision_id) REFERENCES pgrag_data.revision(tenant_id, document_id, revision_id)
tables | chunk_chunk_id_key on pgrag_data.chunk | alter table pgrag_data.chunk add constraint chunk_chunk_id_key UNIQUE (chunk_id, tenant_id)
tables | chunk_lex_chunk_fkey on pgrag_data.chunk_lex | alter table pgrag_data.chunk_lex add constraint chunk_lex_chunk_fkey FOREIGN KEY (tenant_id, revision_id, chunk_no) REFERENCES pgrag_data.chunk(tenant_id, revision_id, chunk_no)
tables | chunk_lex_pkey on pgrag_data.chunk_lex | alter table pgrag_data.chunk_lex add constraint chunk_lex_pkey PRIMARY KEY (tenant_id, revision_id, chunk_no)
tables | chunk_pkey on pgrag_data.chunk | alter table pgrag_data.chunk add constraint chunk_pkey PRIMARY KEY (tenant_id, revision_id, chunk_no) INCLUDE (chunk_id)
tables | chunk_revision_fkey on pgrag_data.chunk | alter table pgrag_data.chunk add constraint chunk_revision_fkey FOREIGN KEY (tenant_id, revision_id) REFERENCES pgrag_data.revision(tenant_id, revision_id)
tables | chunk_span_check on pgrag_data.chunk | alter table pgrag_data.chunk add constraint chunk_span_check CHECK (((0 <= span_start) AND (span_start < span_end)))
tables | chunk_vec_chunk_fkey on pgrag_data.chunk_vec | alter table pgrag_data.chunk_vec add constraint chunk_vec_chunk_fkey FOREIGN KEY (tenant_id, revision_id, chunk_no) REFERENCES pgrag_data.chunk(tenant_id, revision_id, chunk_no)
tables | chunk_vec_pkey on pgrag_data.chunk_vec | alter table pgrag_data.chunk_vec add constraint chunk_vec_pkey PRIMARY KEY (tenant_id, space_id, revision_id, chunk_no)
tables | chunk_vec_space_fkey on pgrag_data.chunk_vec | alter table pgrag_data.chunk_vec add constraint chunk_vec_space_fkey FOREIGN KEY (tenant_id, space_id) REFERENCES pgrag_data.embedding_space(tenant_id, space_id)
tables | chunk_vec_storage_check on pgrag_data.chunk_vec | alter table pgrag_data.chunk_vec add constraint chunk_vec_storage_check CHECK ((num_nonnulls(embedding, half) = 1))
tables | dense_block_acl_fkey on pgrag_data.dense_block | alter table pgrag_data.dense_block add constraint dense_block_acl_fkey FOREIGN KEY (tenant_id, acl_id) REFERENCES pgrag_data.acl(tenant_id, acl_id)
tables | dense_block_pkey on pgrag_data.dense_block | alter table pgrag_data.dense_block add constraint dense_block_pkey PRIMARY KEY (tenant_id, block_id)
tables | dense_block_space_fkey on pgrag_data.dense_block | alter table pgrag_data.dense_block add constraint dense_block_space_fkey FOREIGN KEY (tenant_id, space_id) REFERENCES pgrag_data.embedding_space(tenant_id, space_id)
tables | dense_block_state_check on pgrag_data.dense_block | alter table pgrag_data.dense_block add constraint dense_block_state_check CHECK ((state = ANY (ARRAY['copying'::text, 'indexing'::text, 'live'::text, 'retired'::text])))
tables | document_acl_fkey on pgrag_data.document | alter table pgrag_data.document add constraint document_acl_fkey FOREIGN KEY (tenant_id, acl_id) REFERENCES pgrag_data.acl(tenant_id, acl_id)
tables | document_active_revision_fkey on pgrag_data.document | alter table pgrag_data.document add constraint document_active_revision_fkey FOREIGN KEY (tenant_id, document_id, active_revision_id) REFERENCES pgrag_data.revision(tenant_id, document_id, revision_id)
tables | document_document_key on pgrag_data.document | alter table pgrag_data.document add constraint document_document_key UNIQUE (source_id, document, tenant_id)
tables | document_pkey on pgrag_data.document | alter table pgrag_data.document add constraint document_pkey PRIMARY KEY (tenant_id, document_id)
tables | document_source_fkey on pgrag_data.document | alter table pgrag_data.document add constraint document_source_fkey FOREIGN KEY (tenant_id, source_id) REFERENCES pgrag_data.source(tenant_id, source_id)
tables | embedding_space_dimension_check on pgrag_data.embedding_space | alter table pgrag_data.embedding_space add constraint embedding_space_dimension_check CHECK (((dimension >= 1) AND (dimension <= CASE storage WHEN 'half'::text THEN 4000 ELSE 2000 END)))
tables | embedding_space_metric_check on pgrag_data.embedding_space | alter table pgrag_data.embedding_space add constraint embedding_space_metric_check CHECK ((metric = 'cosine'::text))
tables | embedding_space_normalisation_check on pgrag_data.embedding_space | alter table pgrag_data.embedding_space add constraint embedding_space_normalisation_check CHECK ((normalisation = ANY (ARRAY['unit'::text, 'none'::text])))
tables | embedding_space_pkey on pgrag_data.embedding_space | alter table pgrag_data.embedding_space add constraint embedding_space_pkey PRIMARY KEY (tenant_id, space_id)
tables | embedding_space_space_key on pgrag_data.embedding_space | alter table pgrag_data.embedding_space add constraint embedding_space_space_key UNIQUE (space, tenant_id)
tables | embedding_space_storage_check on pgrag_data.embedding_space | alter table pgrag_data.embedding_space add constraint embedding_space_storage_check CHECK ((storage = ANY (ARRAY['float'::text, 'half'::text])))
tables | embedding_space_tenant_id_fkey on pgrag_data.embedding_space | alter table pgrag_data.embedding_space add constraint embedding_space_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES pgrag_data.tenant(tenant_id)
tables | embedding_space_zero_vectors_check on pgrag_data.embedding_space | alter table pgrag_data.embedding_space add constraint embedding_space_zero_vectors_check CHECK ((zero_vectors = ANY (ARRAY['refuse'::text, 'skip'::text])))
tables | internal_key_pkey on pgrag_private.internal_key | alter table pgrag_private.internal_key add constraint internal_key_pkey PRIMARY KEY (purpose)
tables | internal_key_purpose_check on pgrag_private.internal_key | alter table pgrag_private.internal_key add constraint internal_key_purpose_check CHECK ((purpose = ANY (ARRAY['session'::text, 'seal'::text])))
tables | membership_group_fkey on pgrag_data.membership | alter table pgrag_data.membership add constraint membership_group_fkey FOREIGN KEY (tenant_id, group_id) REFERENCES pgrag_data.principal(tenant_id, principal_id)
tables | membership_member_fkey on pgrag_data.membership | alter table pgrag_data.membership add constraint membership_member_fkey FOREIGN KEY (tenant_id, member_id) REFERENCES pgrag_data.principal(tenant_id, principal_id)
tables | membership_pkey on pgrag_data.membership | alter table pgrag_data.membership add constraint membership_pkey PRIMARY KEY (tenant_id, member_id, group_id)
tables | pgrag_data.acl | columns acl_id bigint not null, fingerprint bytea not null, tenant_id bigint not null
tables | pgrag_data.acl_entry | columns acl_id bigint not null, principal_id bigint not null, tenant_id bigint not null
tables | pgrag_data.activation | columns action text not null, activation_id bigint not null, document_id bigint not null, recorded_at timestamp with time zone not null, replaced_revision_id bigint, revision_id bigint not null, subject text not null, tenant_id bigint not null
tables | pgrag_data.chunk | columns chunk_id bytea not null, chunk_no integer not null, language text not null, page integer, revision_id bigint not null, section text not null, span_end integer not null, span_start integer not null, tenant_id bigint not null, text text not null, token_count integer not null
tables | pgrag_data.chunk_lex | columns chunk_no integer not null, language text not null, length integer not null, lexemes tsvector not null, revision_id bigint not null, tenant_id bigint not null
tables | pgrag_data.chunk_vec | columns chunk_no integer not null, embedding public.vector, half public.halfvec, revision_id bigint not null, space_id bigint not null, tenant_id bigint not null
tables | pgrag_data.dense_block | columns acl_id bigint, base_id bigint, block_id bigint not null, copied_to bigint not null, created_at timestamp with time zone not null, live_at timestamp with time zone, retired_at timestamp with time zone, snapshot pg_snapshot not null, space_id bigint not null, state text not null, system_identifier bigint not null, table_oid oid, tenant_id bigint not null, vectors bigint not null
tables | pgrag_data.document | columns acl_id bigint not null, active_revision_id bigint, active_until timestamp with time zone, changed_xid xid8 not null, created_at timestamp with time zone not null, deleted_at timestamp with time zone, document text not null, document_id bigint not null, source_id bigint not null, tenant_id bigint not null
tables | pgrag_data.embedding_space | columns created_at timestamp with time zone not null, dimension integer not null, document_prefix text not null, metric text not null, model text not null, model_revision text not null, normalisation text not null, preprocessing text not null, query_prefix text not null, retired_at timestamp with time zone, space text not null, space_id bigint not null, storage text not null, tenant_id bigint not null, zero_vectors text not null
tables | pgrag_data.membership | columns created_at timestamp with time zone not null, group_id bigint not null, member_id bigint not null, tenant_id bigint not null
tables | pgrag_data.principal | columns created_at timestamp with time zone not null, dropped_at timestamp with time zone, kind text not null, name text not null, principal_id bigint not null, tenant_id bigint not null
tables | pgrag_data.revision | columns chunk_count integer not null, chunker text not null, content_hash bytea not null, created_at timestamp with time zone not null, dated date, document_id bigint not null, effective_from timestamp with time zone not null, effective_to timestamp with time zone not null, language text not null, languages text[] not null, lexeme_count bigint not null, metadata jsonb not null, parser text not null, product text, revision text not null, revision_id bigint not null, skips int4range[] not null, space_id bigint, state text not null, tags text[] not null, tenant_id bigint not null, title text not null, token_count bigint not null, tokenizer text not null, verified_at timestamp with time zone, version text
tables | pgrag_data.revision_source | columns body text not null, revision_id bigint not null, tenant_id bigint not null
tables | pgrag_data.revision_space | columns completed_at timestamp with time zone not null, revision_id bigint not null, space_id bigint not null, tenant_id bigint not null
tables | pgrag_data.scope_total | columns acl_id bigint not null, chunks bigint not null, documents bigint not null, languages text[] not null, lexemes bigint not null, scope_total_id bigint not null, source_id bigint not null, tenant_id bigint not null, until timestamp with time zone not null
tables | pgrag_data.search_cost | columns measured_at timestamp with time zone, microseconds double precision not null, part text not null
tables | pgrag_data.source | columns created_at timestamp with time zone not null, processors text[] not null, source text not null, source_id bigint not null, tenant_id bigint not null, trust text not null
tables | pgrag_data.tenant | columns active_space_id bigint, created_at timestamp with time zone not null, name text not null, next_space_id bigint, tenant text not null, tenant_id bigint not null
tables | pgrag_private.internal_key | columns inner_pad bytea not null, outer_pad bytea not null, purpose text not null
tables | pgrag_private.signing_key | columns audience text not null, created_at timestamp with time zone not null, inner_pad bytea not null, issuer text not null, kid text not null, outer_pad bytea not null, retired_at timestamp with time zone
tables | principal_kind_check on pgrag_data.principal | alter table pgrag_data.principal add constraint principal_kind_check CHECK ((kind = ANY (ARRAY['user'::text, 'service'::text, 'group'::text, 'everyone'::text])))
tables | principal_pkey on pgrag_data.principal | alter table pgrag_data.principal add constraint principal_pkey PRIMARY KEY (tenant_id, principal_id)
tables | principal_tenant_id_fkey on pgrag_data.principal | alter table pgrag_data.principal add constraint principal_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES pgrag_data.tenant(tenant_id)
tables | revision_document_fkey on pgrag_data.revision | alter table pgrag_data.revision add constraint revision_document_fkey FOREIGN KEY (tenant_id, document_id) REFERENCES pgrag_data.document(tenant_id, document_id)
tables | revision_document_key on pgrag_data.revision | alter table pgrag_data.revision add constraint revision_document_key UNIQUE (document_id, revision_id, tenant_id)
tables | revision_effective_check on pgrag_data.revision | alter table pgrag_data.revision add constraint revision_effective_check CHECK ((effective_from < effective_to))
tables | revision_pkey on pgrag_data.revision | alter table pgrag_data.revision add constraint revision_pkey PRIMARY KEY (tenant_id, revision_id)
tables | revision_revision_key on pgrag_data.revision | alter table pgrag_data.revision add constraint revision_revision_key UNIQUE (document_id, revision, tenant_id)
tables | revision_source_pkey on pgrag_data.revision_source | alter table pgrag_data.revision_source add constraint revision_source_pkey PRIMARY KEY (tenant_id, revision_id)
tables | revision_source_revision_fkey on pgrag_data.revision_source | alter table pgrag_data.revision_source add constraint revision_source_revision_fkey FOREIGN KEY (tenant_id, revision_id) REFERENCES pgrag_data.revision(tenant_id, revision_id)
tables | revision_space_fkey on pgrag_data.revision | alter table pgrag_data.revision add constraint revision_space_fkey FOREIGN KEY (tenant_id, space_id) REFERENCES pgrag_data.embedding_space(tenant_id, space_id)
tables | revision_space_pkey on pgrag_data.revision_space | alter table pgrag_data.revision_space add constraint revision_space_pkey PRIMARY KEY (tenant_id, revision_id, space_id)
tables | revision_space_revision_fkey on pgrag_data.revision_space | alter table pgrag_data.revision_space add constraint revision_space_revision_fkey FOREIGN KEY (tenant_id, revision_id) REFERENCES pgrag_data.revision(tenant_id, revision_id)
tables | revision_space_space_fkey on pgrag_data.revision_space | alter table pgrag_data.revision_space add constraint revision_space_space_fkey FOREIGN KEY (tenant_id, space_id) REFERENCES pgrag_data.embedding_space(tenant_id, space_id)
tables | revision_state_check on pgrag_data.revision | alter table pgrag_data.revision add constraint revision_state_check CHECK ((state = ANY (ARRAY['staged'::text, 'verified'::text])))
tables | scope_total_acl_fkey on pgrag_data.scope_total | alter table pgrag_data.scope_total add constraint scope_total_acl_fkey FOREIGN KEY (tenant_id, acl_id) REFERENCES pgrag_data.acl(tenant_id, acl_id)
tables | scope_total_pkey on pgrag_data.scope_total | alter table pgrag_data.scope_total add constraint scope_total_pkey PRIMARY KEY (tenant_id, acl_id, scope_total_id)
tables | scope_total_source_fkey on pgrag_data.scope_total | alter table pgrag_data.scope_total add constraint scope_total_source_fkey FOREIGN KEY (tenant_id, source_id) REFERENCES pgrag_data.source(tenant_id, source_id)
tables | search_cost_microseconds_check on pgrag_data.search_cost | alter table pgrag_data.search_cost add constraint search_cost_microseconds_check CHECK (((microseconds > (0)::double precision) AND (microseconds < 'Infinity'::double precision)))
tables | search_cost_part_check on pgrag_data.search_cost | alter table pgrag_data.search_cost add constraint search_cost_part_check CHECK ((part = ANY (ARRAY['document'::text, 'vector'::text, 'block'::text])))
tables | search_cost_pkey on pgrag_data.search_cost | alter table pgrag_data.search_cost add constraint search_cost_pkey PRIMARY KEY (part)
tables | signing_key_pkey on pgrag_private.signing_key | alter table pgrag_private.signing_key add constraint signing_key_pkey PRIMARY KEY (kid)
tables | source_pkey on pgrag_data.source | alter table pgrag_data.source add constraint source_pkey PRIMARY KEY (tenant_id, source_id)
tables | source_source_key on pgrag_data.source | alter table pgrag_data.source add constraint source_source_key UNIQUE (source, tenant_id)
tables | source_tenant_id_fkey on pgrag_data.source | alter table pgrag_data.source add constraint source_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES pgrag_data.tenant(tenant_id)
tables | source_trust_check on pgrag_data.source | alter table pgrag_data.source add constraint source_trust_check CHECK ((trust = ANY (ARRAY['untrusted'::text, 'external'::text, 'internal'::text, 'authoritative'::text])))
tables | tenant_active_space_fkey on pgrag_data.tenant | alter table pgrag_data.tenant add constraint tenant_active_space_fkey FOREIGN KEY (tenant_id, active_space_id) REFERENCES pgrag_data.embedding_space(tenant_id, space_id)
tables | tenant_next_space_fkey on pgrag_data.tenant | alter table pgrag_data.tenant add constraint tenant_next_space_fkey FOREIGN KEY (tenant_id, next_space_id) REFERENCES pgrag_data.embedding_space(tenant_id, space_id)
tables | tenant_pkey on pgrag_data.tenant | alter table pgrag_data.tenant add constraint tenant_pkey PRIMARY KEY (tenant_id)
tables | tenant_tenant_key on pgrag_data.tenant | alter table pgrag_data.tenant add constraint tenant_tenant_key UNIQUE (tenant)
views | pgrag.chunks | create or replace view % with (security_barrier=true) as  SELECT encode(c.chunk_id, 'hex'::text) AS chunk_id, s.source, d.document, r.revision, c.chunk_no, c.section, c.page, c.language, c.span_start, c.span_end, c.token_count AS tokens, c.text FROM (((pgrag_data.document d JOIN pgrag_data.source s ON (((s.tenant_id = d.tenant_id) AND (s.source_id = d.source_id)))) JOIN pgrag_data.revision r ON (((r.tenant_id = d.tenant_id) AND (r.revision_id = d.active_revision_id)))) JOIN pgrag_data.chunk c ON (((c.tenant_id = r.tenant_id) AND (c.revision_id = r.revision_id)))) OFFSET 0;
views | pgrag.documents | create or replace view % with (security_barrier=true) as  SELECT s.source, d.document, r.revision, r.title, r.language, r.product, r.version, r.tags, r.dated, NULLIF(r.effective_from, '-infinity'::timestamp with time zone) AS effective_from, NULLIF(r.effective_to, 'infinity'::timestamp with time zone) AS effective_to, s.trust, r.chunk_count AS chunks, r.created_at AS ingested_at, r.metadata FROM ((pgrag_data.document d JOIN pgrag_data.source s ON (((s.tenant_id = d.tenant_id) AND (s.source_id = d.source_id)))) JOIN pgrag_data.revision r ON (((r.tenant_id = d.tenant_id) AND (r.revision_id = d.active_revision_id)))) OFFSET 0;
$objects$, e'\n') as t (line)
   cross join lateral (select regexp_match(t.line, '^(\S+) \| (.+?) \| (.+)$')) as l (part)
   where t.line <> ''
$$;
