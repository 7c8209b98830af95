-- 0.1.0 to 0.2.0: what has state, and so cannot simply be applied again. It runs as pgrag_owner, once, after policies,
-- privileges, types and changed functions were cleared away, and before they are made as they are now. Each change is
-- made in sql/tables/ too; columns are added last.
--
-- No statement here may touch a row: row-level security is forced, and the policies are not there. Rows are the matter
-- of 0.2.0.rows.sql.

alter table pgrag_data.revision add column metadata jsonb not null default '{}';
