-- TPC-C's Payment, the customer by number or by last name. What is read to be written is read first, as an application
-- with a cache does it.

-- @transaction PaymentById(:w_id, :d_id, :c_w_id, :c_d_id, :c_id, :h_amount)
BEGIN;
SELECT w_name, w_ytd FROM warehouse WHERE w_id = :w_id;
SELECT d_name, d_ytd FROM district WHERE d_w_id = :w_id AND d_id = :d_id;
SELECT c_balance, c_data, c_credit FROM customer WHERE c_w_id = :c_w_id AND c_d_id = :c_d_id AND c_id = :c_id FOR UPDATE;
-- @name w:warehouse
UPDATE warehouse SET w_ytd = :w_ytd + :h_amount WHERE w_id = :w_id;
-- @name w:district
UPDATE district SET d_ytd = :d_ytd + :h_amount WHERE d_w_id = :w_id AND d_id = :d_id;
-- @let :data = if :c_credit = 'BC' then :h_amount || :c_data
-- @name w:customer
UPDATE customer SET c_balance = :c_balance - :h_amount, c_data = :data
WHERE c_w_id = :c_w_id AND c_d_id = :c_d_id AND c_id = :c_id;
-- @name w:history
INSERT INTO history (h_c_id, h_w_id, h_d_id, h_amount, h_data)
VALUES (:c_id, :w_id, :d_id, :h_amount, :w_name || '    ' || :d_name);
COMMIT;

-- @transaction PaymentByName(:w_id, :d_id, :c_w_id, :c_d_id, :c_last, :h_amount)
BEGIN;
SELECT w_name, w_ytd FROM warehouse WHERE w_id = :w_id;
SELECT d_name, d_ytd FROM district WHERE d_w_id = :w_id AND d_id = :d_id;
-- The index by last name is an access of its own.
-- @name customer_name
SELECT c_id FROM customer_by_name WHERE c_w_id = :c_w_id AND c_d_id = :c_d_id AND c_last = :c_last;
SELECT c_balance, c_data, c_credit FROM customer WHERE c_w_id = :c_w_id AND c_d_id = :c_d_id AND c_id = :c_id FOR UPDATE;
-- @name w:warehouse
UPDATE warehouse SET w_ytd = :w_ytd + :h_amount WHERE w_id = :w_id;
-- @name w:district
UPDATE district SET d_ytd = :d_ytd + :h_amount WHERE d_w_id = :w_id AND d_id = :d_id;
-- @let :data = if :c_credit = 'BC' then :h_amount || :c_data
-- @name w:customer
UPDATE customer SET c_balance = :c_balance - :h_amount, c_data = :data
WHERE c_w_id = :c_w_id AND c_d_id = :c_d_id AND c_id = :c_id;
-- @name w:history
INSERT INTO history (h_c_id, h_w_id, h_d_id, h_amount, h_data)
VALUES (:c_id, :w_id, :d_id, :h_amount, :w_name || '    ' || :d_name);
COMMIT;
